import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import RetentionFeature
@testable import SyncStore

/// Simulates a year in a few seconds. All rows are deleted after some days, and tables keep their size.
@Suite struct RetentionYearTests {
    @Test(.onOneServer("sizes of one server's tables"))
    func `tables and indexes keep their size over a year`() async throws {
        let phone = try await Phone.new()
        let gateway = phone.gateway
        let stranger = Phone(gateway, try await gateway.organization())
        let vacuum = try await gateway.database.connect()
        var living: [[Entry]] = []
        var sizes: [Int: [String: Int64]] = [:]
        for day in 1...365 {
            let creates = (0..<12).map { _ in
                phone.create(payload: #"{"title":"\#(String(repeating: "x", count: 200))"}"#)
            }
            living.append(creates)
            var entries = creates + creates.prefix(3).map { phone.entry("update", local: $0.local) }
            if living.count > 5 { entries += living.removeFirst().map { phone.entry("delete", local: $0.local) } }
            // failed and refused mutations that are never settled
            entries += [phone.entry("update", server: "\"nothing-\(day)\""), phone.entry("update", local: UUID())]
            try await phone.push(entries)
            if day % 30 == 0 { try await stranger.push([stranger.create()]) }
            gateway.clock.advance(seconds: Gateway.day)
            let result = try #require(try await gateway.retain(limit: 500))
            #expect(result.isComplete)
            // replaces autovacuum, which does not depend on the test clock
            if day % 5 == 0 {
                for table in [
                    "mutations", "entities", "id_mappings", "rejections", "lanes", "devices", "feeds", "retention_runs",
                ] {
                    try await vacuum.execute(script: "VACUUM \(table)")
                }
            }
            if [90, 120, 365].contains(day) { sizes[day] = try await Self.sizes(gateway) }
        }
        vacuum.close()
        // rows remain for up to sixty days: a failure is discarded after thirty, and its record is deleted thirty days
        // later
        let early = try #require(sizes[90])
        let late = try #require(sizes[365])
        for (table, size) in late {
            let before = early[table] ?? 0
            // some pages vary by chance: an index reuses an emptied page only after a later vacuum has found it, and a
            // growing table would be four times as large
            let room = before + before / 10 + 262_144
            #expect(size <= room, "\(table): \(before) bytes after 90 days, \(size) after 365")
        }
        let records = try await phone.count("mutations")
        #expect(records < 31 * 30 + 62, "\(records)")
        // a mapping stays as long as any record that was accepted before the tombstone of its entity was deleted
        let mappings = try await phone.count("id_mappings")
        #expect(mappings < 100 * 12, "\(mappings)")
        #expect(try await phone.pull().filter { $0["deleted"]?.bool == false }.count == 5 * 12)
        // the other user's twelve entities exist
        #expect(try await stranger.pull().count == 12)
    }

    /// Returns the bytes of each table and each index, as the sum of its partitions.
    private static func sizes(_ gateway: Gateway) async throws -> [String: Int64] {
        let rows = try await gateway.read(
            """
            SELECT coalesce(p.relname, c.relname), sum(pg_total_relation_size(c.oid))::int8
            FROM pg_class c
            LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
            LEFT JOIN pg_class p ON p.oid = i.inhparent
            WHERE c.relkind IN ('r', 'i') AND c.relnamespace = 'public'::regnamespace
            GROUP BY 1
            """
        )
        var sizes: [String: Int64] = [:]
        for row in 0..<rows.count {
            sizes[try rows.read(row, 0, as: String.self)] = try rows.read(row, 1, as: Int64.self)
        }
        return sizes
    }
}
