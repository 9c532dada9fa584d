import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

@Suite(.serialized) struct EventTests {
    /// Two devices of one user push through two gateways, and an operator settles, while a reader reads page by page.
    @Test func `a reader misses nothing and sees each last state while writers continue`() async throws {
        let seed = Seed()
        var generator = seed.generator
        let replicas = try await GatewayPair()
        let organization = try await replicas.base.organization()
        let phone = Phone(replicas.base, organization)
        let tablet = Phone(replicas.base, organization, user: phone.user)
        let lane = LaneKey(organization: organization.id, user: phone.user)
        let writers = Countdown(2)
        let start = try await replicas.base.store.events.start(after: nil, of: lane)
        let seen = try await withThrowingTaskGroup(of: [String: String]?.self) { group in
            for device in [phone, tablet] {
                let generator = generator.split()
                group.addTask {
                    defer { writers.finishOne() }
                    var generator = generator
                    for _ in 0..<40 {
                        let entries = (0..<Int.random(in: 1...30, using: &generator)).map { _ in device.create() }
                        _ = try await device.push(entries, through: replicas.random(&generator))
                    }
                    return nil
                }
            }
            group.addTask {
                var seen: [String: String] = [:]
                var cursor = start
                while true {
                    let isLast = writers.isOver
                    let page = try await replicas.base.store.events.page(after: cursor, of: lane)
                    #expect(page.events.count <= EventReader.pageEvents)
                    for event in page.events {
                        switch event.subject {
                        case .mutation(let record): seen[record.id.lowercased] = record.status.rawValue
                        case .mapping(let mapping):
                            seen["mapping of \(mapping.clientID.lowercased)"] = mapping.status.rawValue
                        }
                    }
                    // the reader may continue from any event of a page
                    cursor = page.events.randomElement()?.cursor ?? page.next
                    if page.events.isEmpty, isLast, !page.hasMore { return seen }
                    #expect(EventCursor(cursor.text) == cursor)
                }
            }
            return try await group.reduce(nil) { $0 ?? $1 }
        }
        let rows = try await replicas.base.read(
            """
            SELECT id::text, status::text FROM mutations
            UNION ALL SELECT 'mapping of ' || client_id, status::text FROM id_mappings
            """
        )
        var expected: [String: String] = [:]
        for row in 0..<rows.count {
            expected[try rows.read(row, 0, as: String.self)] = try rows.read(row, 1, as: String.self)
        }
        #expect(seen == expected, "\(seed)")
    }

    /// A page at the end of a long lane costs as much as a page at its beginning.
    @Test(.onOneServer("plans of one server"), arguments: ["force_custom_plan", "force_generic_plan"])
    func `pages of events and of the feed use indexes`(mode: String) async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization())
        for _ in 0..<20 { try await phone.push((0..<100).map { _ in phone.create() }) }
        let connection = try await gateway.database.connect(settings: Store.pooledSettings)
        try await connection.execute(script: "SET plan_cache_mode = \(mode)")
        let (organization, user) = (phone.organization.id.uuidString, phone.user.uuidString)
        for isAnalyzed in [false, true] {
            if isAnalyzed { try await connection.execute(script: "ANALYZE") }
            for place in [0, 1_900] {
                let events = try await connection.explain(
                    EventReader.keysStatement,
                    "'\(organization)', '\(user)', \(place / 100), 0, '\(UUID())', '', 64, 32768"
                )
                #expect(!events.contains("Seq Scan on mutations"), "\(mode):\n\(events)")
                #expect(!events.contains("Seq Scan on id_mappings"), "\(mode):\n\(events)")
                #expect(events.contains("change_position_idx"), "\(mode):\n\(events)")
                let changes = try await connection.explain(
                    FeedReader.statement,
                    "'\(organization)', \(place), '{}', '\(user)', 50, 50, 1000000"
                )
                #expect(!changes.contains("Seq Scan on entities"), "\(mode):\n\(changes)")
                let news = try await connection.explain(PendingFeedChanges.statement, "'\(organization)', \(place), 50")
                #expect(!news.contains("Seq Scan on entities"), "\(mode):\n\(news)")
                // a small table without statistics may be sorted as a whole
                for plan in isAnalyzed ? [changes, news] : [] {
                    let rows = plan.matches(of: /actual rows=(\d+)/).compactMap { Int($0.output.1) }
                    #expect((rows.max() ?? 0) <= 51, "a page reads only its rows: \(mode) at \(place)\n\(plan)")
                }
            }
        }
        connection.close()
    }
}
