import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

@Suite struct ChannelPlanTests {
    /// A page must not read rows of other channels, even if its plan was made on small tables.
    @Test(.onOneServer("plans of one server"))
    func `a page reads a few rows of each channel by key`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization().id.lowercased
        let (user, channel) = (UUID().lowercased, ChannelID(named: "c/1").uuid.lowercased)
        let connection = try await gateway.database.connect(settings: Store.pooledSettings)
        try await connection.execute(
            script: """
                INSERT INTO entities (organization_id, entity_type, id, id_is_integer, version, is_deleted, document,
                    feed_position, owner_id, updated_by, updated_on, run_base, created_at, updated_at, channels)
                SELECT '\(organization)', 'visit', n::text, false, 1, false, '{}', n, '\(user)', '\(user)', '\(user)', 0,
                    now(), now(), ARRAY[CASE WHEN n % 100 = 0 THEN '\(channel)'::uuid ELSE '\(user)'::uuid END]
                FROM generate_series(1, 5000) n;
                INSERT INTO entity_channels SELECT organization_id, channels[1], feed_position, feed_position FROM entities
                WHERE organization_id = '\(organization)';
                UPDATE feeds SET last_position = 5000 WHERE organization_id = '\(organization)';
                """
        )
        let values = """
            '\(organization)', '\(UUID().lowercased)', 5000, ARRAY['\(channel)']::uuid[], 0, 9000, 0, 100, '{}', 10, 10, 100000,
            false
            """
        let shape = [Query.planByIndex, Query(Pool.orderShape)]
        for isAnalyzed in [false, true] {
            if isAnalyzed { try await connection.execute(script: "VACUUM ANALYZE") }
            for plan in try await connection.plans(of: ChannelFeedStatements.merge, values, shape) {
                // the index also contains the start of each stay
                #expect(!plan.contains(/Index Scan using entity_channels/), "\(plan)")
                for table in ["entities", "entity_channels", "ended_stays"] {
                    #expect(!plan.contains("Seq Scan on \(table)"), "\(plan)")
                }
                let rows = plan.matches(of: /actual rows=(\d+)/).compactMap { Int($0.output.1) }
                #expect((rows.max() ?? 0) <= 12, "\(plan)")
            }
        }
        connection.close()
    }

    /// A write can contain thousands of sources and grants, so each grant is looked up among the others and not
    /// compared with all of them.
    @Test(.onOneServer("plans of one server"))
    func `a write of grants reads each of its lists once`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization().id.lowercased
        let connection = try await gateway.database.connect(settings: Store.hotSettings)
        defer { connection.close() }
        let names = (0..<60).map { "'c\($0)'" }
        let users = (0..<60).map { "'\(ChannelID(named: "u\($0 % 7)").uuid.lowercased)'" }
        let channels = (0..<60).map { "'\(ChannelID(named: "c\($0)").uuid.lowercased)'" }
        let rows = (0..<60).map { place in
            "('\(organization)', \(users[place]), \(channels[place]), 'entity m \(place % 5)', 1, \(names[place]), 'read', 1)"
        }
        try await connection.execute(
            script: """
                INSERT INTO channel_grants (organization_id, user_id, channel, source, since, name, role, changed_at)
                VALUES \(rows.joined(separator: ", "));
                UPDATE feeds SET last_position = 9 WHERE organization_id = '\(organization)';
                """
        )
        func list(_ values: [String], _ type: String) -> String {
            "ARRAY[\(values.joined(separator: ","))]::\(type)[]"
        }
        func own(_ count: Int) -> String { list(Array(repeating: "'\(organization)'", count: count), "uuid") }
        let kept = 0..<59
        let grants = [
            own(59), list(kept.map { "'entity m \($0 % 5)'" }, "text"), list(Array(users[kept]), "uuid"),
            list(kept.map { _ in "NULL" }, "text"), list(kept.map { _ in "NULL" }, "text"),
            list(Array(channels[kept]), "uuid"), list(Array(names[kept]), "text"),
            list(kept.map { _ in "'read'" }, "text"),
        ].joined(separator: ", ")
        let sources = "\(own(5)), \(list((0..<5).map { "'entity m \($0)'" }, "text"))"
        for (statement, values, changed) in [
            (ChannelStatements.endGrants, "\(sources), \(grants)", 1), (ChannelStatements.beginGrants, grants, 0),
        ] {
            for plan in try await connection.plans(of: statement, values) {
                #expect(plan.contains("hashed SubPlan") && !plan.contains("Anti Join"), "\(plan)")
                for line in plan.split(separator: "\n") where line.contains("Function Scan") {
                    #expect(line.contains("loops=1)"), "\(plan)")
                }
            }
            try await connection.execute(script: "BEGIN; PREPARE written AS \(statement.sql)")
            let written = try await connection.run([Query(Statement("", "EXECUTE written(\(values))"))])[0]
            #expect(written.affected == changed)
            try await connection.execute(script: "ROLLBACK; DEALLOCATE written")
        }
    }

    /// Committers plan a statement once, and the tables may have been small then.
    @Test(.onOneServer("plans of one server"))
    func `the grants of a user are read by user, also with a plan of small tables`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization().id.lowercased
        let (user, channel) = (UUID().lowercased, ChannelID(named: "c/7").uuid.lowercased)
        let connection = try await gateway.database.connect(settings: Store.hotSettings)
        defer { connection.close() }
        let lane = "ARRAY['\(organization)']::uuid[], ARRAY['\(user)']::uuid[]"
        let calls = [
            (ChannelStatements.access, "all_of(\(lane))", 20), (ChannelStatements.accessOfFew, "few_of(\(lane))", 20),
            (ChannelStatements.accessTo, "one_of(\(lane), ARRAY['\(channel)']::uuid[])", 1),
        ]
        for (statement, call, _) in calls {
            let name = call.prefix { $0 != "(" }
            try await connection.execute(script: "PREPARE \(name) AS \(statement.sql)")
            _ = try await connection.explain(call)
        }
        try await connection.execute(
            script: """
                INSERT INTO channel_grants (organization_id, user_id, channel, source, since, name, role, changed_at)
                SELECT '\(organization)', CASE WHEN n <= 20 THEN '\(user)'::uuid ELSE gen_random_uuid() END,
                    encode(substring(sha256(convert_to('c/' || n, 'UTF8')) FOR 16), 'hex')::uuid, 'operator', 1, 'c/' || n, 'read', 1
                FROM generate_series(1, 5000) n
                """
        )
        for isAnalyzed in [false, true] {
            if isAnalyzed { try await connection.execute(script: "ANALYZE channel_grants") }
            for (_, call, count) in calls {
                let plan = try await connection.explain(call)
                let rows = plan.matches(of: /actual rows=(\d+)/).compactMap { Int($0.output.1) }
                #expect(rows.first == count && rows.max() == count, "\(plan)")
                #expect(!plan.contains("Rows Removed"), "\(plan)")
            }
        }
    }

    /// For a user of many channels, a page is read by a scan of the feed instead of channel by channel.
    @Test func `a scan of the feed finds the same changes as the channels`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization().id
        let user = UUID()
        let held = (0..<10).map { ChannelID(named: "c/\($0)").uuid }
        let connection = try await gateway.database.connect()
        defer { connection.close() }
        let (own, names) = ("'\(organization.lowercased)'", held.map { "'\($0.lowercased)'" }.joined(separator: ","))
        try await connection.execute(
            script: """
                INSERT INTO entities (organization_id, entity_type, id, id_is_integer, version, is_deleted, document,
                    feed_position, owner_id, updated_by, updated_on, run_base, created_at, updated_at, channels)
                SELECT \(own), 'visit', n::text, false, 1, false, '{}', n * 2, \(own), \(own), \(own), 0, now(), now(),
                    CASE WHEN n % 5 > 0 THEN (ARRAY[\(names),\(own)]::uuid[])[1 + n % 9:2 + n % 9] END
                FROM generate_series(1, 300) n;
                INSERT INTO entity_channels
                SELECT organization_id, c, feed_position, feed_position - 1 FROM entities CROSS JOIN unnest(channels) c
                WHERE organization_id = \(own);
                INSERT INTO ended_stays
                SELECT \(own), c, 2 * n + 1, 1, 'visit', n::text, false
                FROM generate_series(1, 300, 4) n
                CROSS JOIN unnest((ARRAY[\(names)]::uuid[])[1 + n % 7:3 + n % 7]) c;
                UPDATE feeds SET last_position = 1000 WHERE organization_id = \(own);
                """
        )
        func rows(_ statement: Statement, after: Int64, scan: Int64, room: Int64) async throws -> [String] {
            let query = statement(
                organization: organization,
                owner: user,
                as_of: 1_000 as Int64,
                channels: Array(held.dropLast(2)),
                after: after,
                up_to: Int64.max,
                ended_after: after,
                scan: scan,
                entity_types: [String](),
                room: room,
                limit: 1_000 as Int64,
                bytes: 1_000_000 as Int64,
                is_loss: false
            )
            return try await connection.run([query])[0].read { row in
                for name in ["epoch", "horizon", "last_position", "is_stale", "bound"] as [StaticString] {
                    row.skip(name)
                }
                let position: Int64? = try row.read("position")
                for name in ["is_cut", "is_asked"] as [StaticString] { row.skip(name) }
                let (channel, joinedAt): (UUID?, Int64?) = (try row.read("channel"), try row.read("joined_at"))
                let isEnded: Bool? = try row.read("is_ended")
                return "\(position ?? 0) \(channel?.lowercased ?? "-") \(joinedAt ?? 0) \(isEnded ?? false)"
            }
        }
        for (after, scan) in [(0, 0), (0, 1_000), (301, 1_000), (599, 0)] as [(Int64, Int64)] {
            let all = try await rows(ChannelFeedStatements.merge, after: after, scan: scan, room: 1_000)
            #expect(try await rows(ChannelFeedStatements.scan, after: after, scan: scan, room: 1_000) == all)
            // a scan that does not return everything ends after a position all of whose rows it returns
            let part = try await rows(ChannelFeedStatements.scan, after: after, scan: scan, room: 20)
            #expect(all.starts(with: part) && part.count < all.count || all.count < 20, "\(after) \(scan)")
        }
    }
}
