import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import SyncStore

@Suite(.serialized) struct FeedTests {
    /// The last version of each entity that a reader has seen.
    private struct Seen {
        var versions: [EntityKey: Int64] = [:]
        var pages = 0
        var repeated = 0
    }

    @Test(arguments: [[], ["task"], ["diary", "task"]])
    func `a reader with small pages skips nothing while writers continue`(_ types: [String]) async throws {
        let seed = Seed()
        var generator = seed.generator
        let replicas = try await GatewayPair()
        let organization = try await replicas.base.organization()
        _ = try await replicas.base.store.administration.putEntityType(
            "diary",
            in: organization.id,
            EntityTypeUpdate(body: Array(#"{"visibility":"user"}"#.utf8))
        )
        let phones = (0..<4).map { _ in Phone(replicas.base, organization) }
        let writers = Countdown(phones.count)
        let seen = try await withThrowingTaskGroup(of: Seen?.self) { group in
            for phone in phones {
                let generator = generator.split()
                group.addTask {
                    defer { writers.finishOne() }
                    try await Self.write(phone, replicas, generator)
                    return nil
                }
            }
            let generator = generator.split()
            group.addTask {
                try await Self.follow(phones[0], types, generator, seed) { writers.isOver }
            }
            return try await group.reduce(nil) { $0 ?? $1 }
        }
        let found = try #require(seen)
        let expected = try await Self.stored(replicas.base, organization, phones[0].user, types)
        #expect(found.versions == expected, "\(seed)")
        #expect(found.pages > 10, "\(seed)")
        // a pull from the beginning returns each entity once
        let whole = try await phones[1].pull(limit: 7, types: types)
        let keys = whole.map { EntityKey(type: $0["entity_type"]?.string ?? "", id: $0.entityID) }
        #expect(Set(keys).count == keys.count, "\(seed)")
        let others = try await Self.stored(replicas.base, organization, phones[1].user, types)
        #expect(Set(keys) == Set(others.keys), "\(seed)")
    }

    @Test func `a pull that reached a push's cursor contains the push`() async throws {
        let replicas = try await GatewayPair()
        let organization = try await replicas.base.organization()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for place in 0..<4 {
                let phone = Phone(replicas.base, organization)
                group.addTask {
                    var cursor: String?
                    for _ in 0..<15 {
                        let answer = try await phone.push([phone.create()], through: replicas[place % 2])
                        let id = try #require(answer.results[0].serverID)
                        let feed = try #require(answer["feed"]?.string.flatMap { FeedCursor($0) })
                        var ids: [String] = []
                        var position: Int64 = 0
                        repeat {
                            let page = try await Self.page(phone, cursor, 3, [])
                            ids += page.changes.map(\.entityID)
                            (cursor, position) = (page.next.text, page.next.position)
                        } while position < feed.position
                        #expect(ids.contains(id))
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    // MARK: - Steps

    private static func write(_ phone: Phone, _ replicas: GatewayPair, _ generator: SeededRandom) async throws {
        var generator = generator
        var own: [(type: String, local: UUID)] = []
        for _ in 0..<40 {
            let entries = (0..<Int.random(in: 1...4, using: &generator)).map { _ -> Entry in
                guard let target = own.randomElement(using: &generator), !generator.oneIn(3) else {
                    let type = ["task", "note", "diary"].randomElement(using: &generator) ?? "task"
                    let local = generator.uuid()
                    own.append((type, local))
                    return phone.create(type, local: local)
                }
                if generator.oneIn(8) {
                    own.removeAll { $0.local == target.local }
                    return phone.entry("delete", target.type, local: target.local)
                }
                return phone.entry("update", target.type, local: target.local, payload: #"{"n":\#(generator.next())}"#)
            }
            let answer = try await phone.push(entries, through: replicas.random(&generator))
            #expect(answer.results.allSatisfy { $0.status == "succeeded" })
        }
    }

    /// Follows the cursors until the writers have finished and the feed is read to its end.
    private static func follow(
        _ phone: Phone,
        _ types: [String],
        _ generator: SeededRandom,
        _ seed: Seed,
        until isOver: () -> Bool
    ) async throws -> Seen {
        var generator = generator
        var seen = Seen()
        var cursor: FeedCursor?
        while true {
            // this is read before the page, so that the page contains earlier writes
            let isLast = isOver()
            let page = try await Self.page(phone, cursor?.text, Int.random(in: 1...5, using: &generator), types)
            seen.pages += 1
            for change in page.changes {
                let key = EntityKey(type: change["entity_type"]?.string ?? "", id: change.entityID)
                let version = change["version"]?.int64 ?? 0
                #expect(version > seen.versions[key] ?? 0, "\(seed): \(key) moved back")
                seen.versions[key] = version
            }
            if let cursor {
                #expect(page.next.position >= cursor.position, "\(seed)")
                #expect(page.changes.isEmpty || page.next.position > cursor.position, "\(seed)")
                // the head at which a first pull began stays until the pull reaches it
                if cursor.position < cursor.head, page.next.position < cursor.head {
                    #expect(page.next.head == cursor.head, "\(seed)")
                }
            }
            #expect(page.isUpToDate || cursor == nil || page.next.position > (cursor?.position ?? 0), "\(seed)")
            cursor = page.next
            if isLast, page.isUpToDate { return seen }
        }
    }

    private static func page(
        _ phone: Phone,
        _ since: String?,
        _ limit: Int,
        _ types: [String]
    ) async throws -> (changes: [JSONValue], next: FeedCursor, isUpToDate: Bool) {
        let page = try await phone.changes(since: since, limit: limit, types: types)
        #expect(page.changes.count <= limit)
        return (page.changes, try #require(page.next.flatMap { FeedCursor($0) }), page.isUpToDate)
    }

    /// The entities that a user may see, from the tables.
    private static func stored(
        _ gateway: Gateway,
        _ organization: Organization,
        _ user: UUID,
        _ types: [String]
    ) async throws -> [EntityKey: Int64] {
        let rows = try await gateway.read("SELECT entity_type, id, version, owner_id FROM entities")
        var versions: [EntityKey: Int64] = [:]
        for row in 0..<rows.count {
            let type: String = try rows.read(row, 0)
            guard types.isEmpty || types.contains(type), try type != "diary" || rows.read(row, 3, as: UUID.self) == user
            else {
                continue
            }
            versions[EntityKey(type: type, id: try rows.read(row, 1, as: String.self))] = try rows.read(
                row,
                2,
                as: Int64.self
            )
        }
        return versions
    }
}

extension JSONValue {
    /// A change's id as text, for every JSON kind.
    var entityID: String { self["id"]?.string ?? self["id"]?.text ?? "" }
}
