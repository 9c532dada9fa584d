import Foundation
import Postgres
import Testing

/// Rows that are sent by column and returned by row.
@Suite struct ColumnsTests {
    private struct Thing: Equatable {
        var id = UUID()
        var other: UUID?
        var count: Int64 = 1
        var place: Int64?
        var size: Int32 = 2
        var rank: Int16 = 3
        var level: Int16?
        var isOpen = true
        var name = "a"
        var note: String?
        var madeAt = PostgresTimestamp(microseconds: 5)
        var seenAt: PostgresTimestamp?
        var bytes: [UInt8]?
        var json: [UInt8]?

        static let columns = Columns<Thing>(
            .value("id", \.id),
            .value("other", \.other),
            .value("count", \.count),
            .value("place", \.place),
            .value("size", \.size),
            .value("rank", \.rank),
            .value("level", \.level),
            .value("is_open", \.isOpen),
            .value("name", \.name),
            .value("note", \.note),
            .value("made_at", \.madeAt),
            .value("seen_at", \.seenAt),
            .bytes("bytes", \.bytes),
            .json("json", \.json),
            .json("cut", { $0.json.map { $0.dropFirst() } })
        )

        init(_ change: (inout Thing) -> Void = { _ in }) { change(&self) }

        init(_ row: inout RowReader) throws {
            id = try row.read("id")
            other = try row.read("other")
            count = try row.read("count")
            place = try row.read("place")
            size = try row.read("size")
            rank = try row.read("rank")
            level = try row.read("level")
            isOpen = try row.read("is_open")
            name = try row.read("name")
            note = try row.read("note")
            madeAt = try row.read("made_at")
            seenAt = try row.read("seen_at")
            bytes = try row.read("bytes")
            json = try row.read("json")
            #expect(try row.read("cut", as: [UInt8]?.self) == json.map { Array($0.dropFirst()) })
        }
    }

    @Test func `returned rows equal the sent ones`() async throws {
        let things = [
            Thing(),
            Thing {
                $0.other = UUID()
                $0.place = .min
                $0.level = -1
                $0.isOpen = false
                $0.name = ""
                $0.note = "é"
                $0.seenAt = PostgresTimestamp(microseconds: -7)
                $0.bytes = [0, 255]
                $0.json = Array(" [1]".utf8)
            },
        ]
        let read = Statement(
            "things",
            Thing.columns.inputs + ["more"],
            "SELECT \(Thing.columns.names(of: "k")), :more AS more FROM \(Thing.columns.unnested(as: "k"))"
        )
        try await withConnection { connection, _ in
            for some in [[], things] {
                var parameters = Thing.columns.parameters(some)
                parameters.add(Int64(9))
                var found: [Thing] = []
                for var row in try await connection.run(Query(read, parameters)) {
                    found.append(try Thing(&row))
                    #expect(try row.read("more", as: Int64.self) == 9)
                }
                #expect(found == some)
            }
        }
    }

    @Test func `a statement receives its columns in every form that it needs`() {
        let columns = Columns<Thing>(.value("id", \.id), Columns(.value("name", \.name), .value("count", \.count)))
        #expect(columns.inputs == ["id", "name", "count"])
        #expect(columns.inputs(prefixed: "own_").inputs == ["own_id", "own_name", "own_count"])
        #expect(columns.names == "id, name, count")
        #expect(columns.names(of: "k") == "k.id, k.name, k.count")
        #expect(
            columns.unnested(as: "k") == "unnest(:id::uuid[], :name::text[], :count::int8[]) AS k (id, name, count)"
        )
        #expect(columns.overwritten(except: ["id"]) == "name = excluded.name, count = excluded.count")
    }

    @Test func `reads a row to its end, and not beyond`() async throws {
        try await withConnection { connection, _ in
            let rows = try await connection.run(query("SELECT 1 AS a, NULL::text AS b, true AS c"))
            #expect(rows.count == 1 && Array(rows).count == 1)
            var row = try #require(rows.first)
            #expect(try row.read("a", as: Int32.self) == 1)
            #expect(row.isNextNull)
            row.skip("b")
            #expect(!row.isNextNull)
            #expect(try row.read("c", as: Bool.self))
            #expect(row.isNextNull)
        }
    }
}
