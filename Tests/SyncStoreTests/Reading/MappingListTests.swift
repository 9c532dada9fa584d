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

@Suite(.serialized) struct MappingListTests {
    /// The last state of each mapping that a reader received.
    private typealias Seen = [MappingKey: String]

    private struct MappingKey: Hashable {
        let client: UUID
        let type: String
    }

    private struct Page {
        let mappings: [(key: MappingKey, status: String)]
        let next: MappingCursor
        let isUpToDate: Bool
    }

    private static func page(
        _ phone: Phone,
        _ since: String?,
        _ limit: Int,
        _ statuses: [IDMapping.Status] = []
    ) async throws -> Page {
        let page = try await phone.gateway.store.mappings.list(
            since: since,
            statuses: statuses,
            limit: limit,
            organization: phone.organization.id,
            user: phone.user
        )
        let root = try JSONTree(parsing: page.json()).root
        let mappings = try root.list("id_mappings").map { mapping in
            let client = try #require(mapping["client_id"]?.uuid)
            return (MappingKey(client: client, type: mapping["entity_type"]?.string ?? "-"), mapping.status ?? "-")
        }
        #expect(mappings.count <= limit)
        return Page(
            mappings: mappings,
            next: try #require(root.next.flatMap { MappingCursor($0) }),
            isUpToDate: root.isUpToDate
        )
    }

    @Test(arguments: [[], [.failed], [.pending, .failed]] as [[IDMapping.Status]])
    func `a reader with small pages skips nothing while writers continue`(_ statuses: [IDMapping.Status]) async throws {
        let seed = Seed()
        var generator = seed.generator
        let first = try await Phone.forwarding()
        let base = first.gateway
        _ = try await base.store.administration.putEntityType(
            "diary",
            in: first.organization.id,
            EntityTypeUpdate(body: Array(#"{"upstream":false}"#.utf8))
        )
        let gateways = [base, try await Gateway(replicaOf: base), try await Gateway(replicaOf: base)]
        let phones = gateways.map { Phone($0, first.organization, user: first.user) }
        // resolved immediately while no mutation is before them
        try await first.push((0..<9).map { _ in first.create("diary") })
        let stranger = Phone(base, first.organization)
        let writers = Countdown(phones.count)
        let seen = try await withThrowingTaskGroup(of: Seen?.self) { group in
            for phone in phones {
                let generator = generator.split()
                group.addTask {
                    defer { writers.finishOne() }
                    try await Self.write(phone, generator, seed)
                    return nil
                }
            }
            group.addTask {
                for _ in 0..<10 { try await stranger.push([stranger.forward("create", local: UUID(), payload: "{}")]) }
                return nil
            }
            let generator = generator.split()
            group.addTask {
                try await Self.follow(phones[0], statuses, generator, seed) { writers.isOver }
            }
            return try await group.reduce(nil) { $0 ?? $1 }
        }
        let found = try #require(seen)
        let stored = try await Self.stored(phones[0])
        let names = statuses.map(\.rawValue)
        for (key, status) in stored where names.isEmpty || names.contains(status) {
            #expect(found[key] == status, "\(seed): \(key)")
        }
        #expect(found.keys.allSatisfy { stored[$0] != nil }, "\(seed): mappings of another user")
        #expect(Set(stored.values) == ["pending", "resolved", "failed"], "\(seed)")
        // a list from the beginning contains each mapping once
        var cursor: String?
        var whole: [(key: MappingKey, status: String)] = []
        while true {
            let page = try await Self.page(phones[1], cursor, 7, statuses)
            whole += page.mappings
            cursor = page.next.text
            if page.isUpToDate { break }
        }
        #expect(Set(whole.map(\.key)).count == whole.count, "\(seed)")
        let expected = stored.filter { names.isEmpty || names.contains($0.value) }
        #expect(Dictionary(whole.map { ($0.key, $0.status) }) { $1 } == expected, "\(seed)")
    }

    private static func write(_ phone: Phone, _ generator: SeededRandom, _ seed: Seed) async throws {
        var generator = generator
        var own: [Entry] = []
        for _ in 0..<25 {
            if generator.oneIn(3), let place = own.indices.randomElement(using: &generator) {
                // the mapping fails, and occasionally the client id is created again
                let gone = own.remove(at: place)
                _ = try await phone.discard(gone.id)
                guard generator.oneIn(2), let local = gone.local else { continue }
                let again = phone.forward("create", gone.type, local: local, payload: "{}")
                let answer = try await phone.push([again])
                #expect(answer.results.map(\.status) == ["pending"], "\(seed)")
                own.append(again)
                continue
            }
            let entries = (0..<Int.random(in: 1...6, using: &generator)).map { _ -> Entry in
                let local = generator.uuid()
                if generator.oneIn(3) { return phone.create("diary", local: local) }
                return phone.forward(
                    "create",
                    generator.oneIn(2) ? "task" : "note",
                    local: local,
                    payload: "{}"
                )
            }
            let answer = try await phone.push(entries)
            #expect(answer.results.allSatisfy { $0.status == "pending" || $0.status == "succeeded" }, "\(seed)")
            own += entries.filter { $0.type != "diary" }
        }
    }

    /// Follows the cursors until the writers have finished and the list is read to its end.
    private static func follow(
        _ phone: Phone,
        _ statuses: [IDMapping.Status],
        _ generator: SeededRandom,
        _ seed: Seed,
        until isOver: () -> Bool
    ) async throws -> Seen {
        var generator = generator
        var seen = Seen()
        var cursor: MappingCursor?
        while true {
            // this is read before the page, so that the page contains earlier writes
            let isLast = isOver()
            let limit = Int.random(in: 1...5, using: &generator)
            let page = try await Self.page(phone, cursor?.text, limit, statuses)
            for (key, status) in page.mappings {
                #expect(statuses.isEmpty || statuses.map(\.rawValue).contains(status), "\(seed)")
                seen[key] = status
            }
            if let cursor { #expect(page.next.place.change >= cursor.place.change, "\(seed): it moved back") }
            #expect(page.isUpToDate || page.next != cursor, "\(seed): it does not advance")
            cursor = page.next
            if isLast, page.isUpToDate { return seen }
        }
    }

    private static func stored(_ phone: Phone) async throws -> Seen {
        let rows = try await phone.gateway.read(
            "SELECT client_id, entity_type, status FROM id_mappings WHERE \(phone.owner)"
        )
        var stored = Seen()
        for row in 0..<rows.count {
            let key = MappingKey(
                client: try rows.read(row, 0, as: UUID.self),
                type: try rows.read(row, 1, as: String.self)
            )
            stored[key] = try rows.read(row, 2, as: String.self)
        }
        return stored
    }

    @Test func `mappings of one push are ordered by client id for every page size`() async throws {
        let phone = try await Phone.new()
        let locals = (0..<6).map { _ in UUID() }
        let entries = locals.flatMap { [phone.create("task", local: $0), phone.create("note", local: $0)] }
        try await phone.push(entries)
        try await phone.push([phone.create("note", local: locals[0], payload: "{}")])
        let expected = locals.sorted().flatMap { id in ["note", "task"].map { MappingKey(client: id, type: $0) } }
        for limit in [1, 2, 5, 11, 12, 13] {
            var keys: [MappingKey] = []
            var cursor: String?
            var pages = 0
            while true {
                let page = try await Self.page(phone, cursor, limit)
                keys += page.mappings.map(\.key)
                cursor = page.next.text
                pages += 1
                if page.isUpToDate { break }
            }
            #expect(keys == expected, "limit \(limit)")
            #expect(pages == (expected.count + limit - 1) / limit, "limit \(limit)")
        }
    }

    @Test func `a selective filter makes pages short`() async throws {
        let phone = try await Phone.forwarding()
        let entries = (0..<25).map { _ in phone.forward("create", local: UUID(), payload: "{}") }
        try await phone.push(entries)
        _ = try await phone.discard(entries[3].id)
        var cursor: String?
        var sizes: [Int] = []
        while true {
            let page = try await Self.page(phone, cursor, 1, [.failed])
            sizes.append(page.mappings.count)
            cursor = page.next.text
            if page.isUpToDate { break }
        }
        // each page examines ten mappings, so two pages have no match, and the third reaches the end
        #expect(sizes == [0, 0, 1])
        #expect(try await Self.page(phone, cursor, 1, [.failed]).mappings.isEmpty)
    }

    @Test(.onOneServer("plans of one server")) func `reads a page of a long list by its index`() async throws {
        let phone = try await Phone.new()
        try await phone.push([phone.create()])
        try await phone.execute(
            """
            INSERT INTO id_mappings (organization_id, user_id, client_id, entity_type, status, mutation_id,
                change_position, created_at)
            SELECT '\(phone.organization.id.lowercased)', '\(phone.user.lowercased)', gen_random_uuid(), 'task',
                'pending', gen_random_uuid(), n / 10, now()
            FROM generate_series(1, 20000) n;
            UPDATE lanes SET change_position = 2000 WHERE \(phone.owner);
            ANALYZE id_mappings
            """
        )
        let connection = try await phone.gateway.database.connect(settings: Store.pooledSettings)
        let values = "'\(phone.organization.id)', '\(phone.user)', 1000, '\(UUID())', 'task', '{}', 501, 501"
        for plan in try await connection.plans(of: MappingReader.listStatement, values) {
            #expect(plan.contains("change_position_idx"), "\(plan)")
            #expect(pages(in: plan) < 1_000, "\(plan)")
        }
        connection.close()
    }
}
