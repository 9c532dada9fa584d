import FoundationEssentials
import Postgres
import TestSupport
import Testing

@Suite struct RoundTripTests {
    private let id = UUID()

    @Test func `scalars return unchanged`() async throws {
        try await withConnection { [id] connection, _ in
            let rows = try await connection.run(
                query("SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11") {
                    $0.add(id)
                    $0.add(Int64.min)
                    $0.add(Int32.max)
                    $0.add(Int16.min)
                    $0.add(true)
                    $0.add("grüße 👩‍👩‍👧")
                    $0.add(timestamp: 1_753_000_000_123_456)
                    $0.add(bytes: [0, 255, 0])
                    $0.add(json: Array(#"{"b": 1,  "a":2}"#.utf8))
                    $0.add(jsonb: Array(#"{"b": 1,  "a":2}"#.utf8))
                    $0.add(-0.1)
                }
            )
            #expect(rows.count == 1)
            #expect(try rows.uuid(0, 0) == id)
            #expect(try rows.int64(0, 1) == .min)
            #expect(try rows.int32(0, 2) == .max)
            #expect(try rows.int16(0, 3) == .min)
            #expect(try rows.bool(0, 4))
            #expect(try rows.string(0, 5) == "grüße 👩‍👩‍👧")
            #expect(try rows.timestamp(0, 6) == 1_753_000_000_123_456)
            #expect(try rows.bytes(0, 7) == [0, 255, 0])
            #expect(try rows.bytes(0, 8) == Array(#"{"b": 1,  "a":2}"#.utf8))
            #expect(try rows.string(0, 9) == #"{"a": 2, "b": 1}"#)
            #expect(try rows.double(0, 10) == -0.1)
        }
    }

    @Test func `the server receives the same values`() async throws {
        try await withConnection { [id] connection, _ in
            let rows = try await connection.run(
                query("SELECT $1::text, $2::text, ($3 AT TIME ZONE 'UTC')::text, $4::text, $5::text") {
                    $0.add(id)
                    $0.add([Int16(1), nil, -3])
                    $0.add(timestamp: -1)
                    $0.add([] as [String])
                    $0.add(["a,b", nil, "", "\"quoted\""])
                }
            )
            #expect(try rows.string(0, 0) == id.uuidString.lowercased())
            #expect(try rows.string(0, 1) == "{1,NULL,-3}")
            #expect(try rows.string(0, 2) == "1969-12-31 23:59:59.999999")
            #expect(try rows.string(0, 3) == "{}")
            #expect(try rows.string(0, 4) == #"{"a,b",NULL,"","\"quoted\""}"#)
        }
    }

    @Test func `NULL returns as nil and is refused if a value is required`() async throws {
        try await withConnection { connection, _ in
            let rows = try await connection.run(
                query("SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10") {
                    $0.add(nil as UUID?)
                    $0.add(nil as Int64?)
                    $0.add(nil as Int32?)
                    $0.add(nil as Int16?)
                    $0.add(nil as Bool?)
                    $0.add(nil as String?)
                    $0.add(timestamp: nil)
                    $0.add(bytes: nil)
                    $0.add(json: nil)
                    $0.add(jsonb: nil)
                }
            )
            #expect((0..<10).allSatisfy { rows.isNull(0, $0) })
            #expect(try rows.optionalUUID(0, 0) == nil)
            #expect(try rows.optionalInt64(0, 1) == nil)
            #expect(try rows.optionalInt32(0, 2) == nil)
            #expect(try rows.optionalInt16(0, 3) == nil)
            #expect(try rows.optionalBool(0, 4) == nil)
            #expect(try rows.optionalString(0, 5) == nil)
            #expect(try rows.optionalTimestamp(0, 6) == nil)
            #expect(try rows.optionalBytes(0, 7) == nil)
            #expect(try rows.optionalBytes(0, 8) == nil)
            #expect(try rows.optionalBytes(0, 9) == nil)
            #expect(throws: PostgresError.self) { try rows.uuid(0, 0) }
            #expect(throws: PostgresError.self) { try rows.string(0, 5) }
        }
    }

    @Test func `arrays return unchanged`() async throws {
        try await withConnection { [id] connection, _ in
            let rows = try await connection.run(
                query("SELECT $1, $2, $3, $4, $5, $6, $7") {
                    $0.add([id, UUID()])
                    $0.add([Int64.min, 0, .max])
                    $0.add([Int32.min, .max])
                    $0.add([Int16.max])
                    $0.add([true, false])
                    $0.add(["", "ä"])
                    $0.add([] as [UUID])
                }
            )
            #expect(try rows.uuids(0, 0).first == id)
            #expect(try rows.int64s(0, 1) == [.min, 0, .max])
            #expect(try rows.int64s(0, 2) == [Int64(Int32.min), Int64(Int32.max)])
            #expect(try rows.int64s(0, 3) == [32767])
            #expect(try rows.bools(0, 4) == [true, false])
            #expect(try rows.strings(0, 5) == ["", "ä"])
            #expect(try rows.uuids(0, 6) == [])
        }
    }

    @Test func `every array type unnests to its elements, including NULLs`() async throws {
        try await withConnection { [id] connection, _ in
            let sql = """
                SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9) AS t (a, b, c, d, e, f, g, h, i)
                """
            let slice = Array("[1][2]".utf8)[3...]
            let rows = try await connection.run(
                query(sql) {
                    $0.add([id, nil])
                    $0.add([Int64(7), nil])
                    $0.add([Int32(7), nil])
                    $0.add([Int16(7), nil])
                    $0.add([true, nil])
                    $0.add(["x", nil])
                    $0.add(timestamps: [5, nil])
                    $0.add(byteas: [[0], nil])
                    $0.add(jsons: [slice, nil])
                }
            )
            #expect(rows.count == 2)
            #expect(try rows.uuid(0, 0) == id)
            #expect(try rows.int64(0, 1) == 7)
            #expect(try rows.int64(0, 2) == 7)
            #expect(try rows.int64(0, 3) == 7)
            #expect(try rows.bool(0, 4))
            #expect(try rows.string(0, 5) == "x")
            #expect(try rows.timestamp(0, 6) == 5)
            #expect(try rows.bytes(0, 7) == [0])
            #expect(try rows.bytes(0, 8) == Array("[2]".utf8))
            #expect((0..<9).allSatisfy { rows.isNull(1, $0) })
        }
    }

    @Test func `infinite timestamps are the extremes`() async throws {
        try await withConnection { connection, _ in
            let rows = try await connection.run(
                query("SELECT $1::text, $2::text, $1, $2") {
                    $0.add(timestamp: .max)
                    $0.add(timestamp: .min)
                }
            )
            #expect(try rows.string(0, 0) == "infinity")
            #expect(try rows.string(0, 1) == "-infinity")
            #expect(try rows.timestamp(0, 2) == .max)
            #expect(try rows.timestamp(0, 3) == .min)
            let error = await failure {
                _ = try await connection.run(query("SELECT $1") { $0.add(timestamp: .min + 1) })
            }
            #expect(error?.sqlState == "22008")
        }
    }

    @Test(arguments: ["\0", "a\0b", "end\0"])
    func `text that contains U+0000 is refused, not truncated`(text: String) async throws {
        try await withConnection { connection, _ in
            let error = await failure { _ = try await connection.run(query("SELECT $1") { $0.add(text) }) }
            #expect(error?.sqlState == "22021")
            let inArray = await failure { _ = try await connection.run(query("SELECT $1 AS list") { $0.add([text]) }) }
            #expect(inArray?.sqlState == "22021")
            let inScript = await failure { try await connection.execute(script: "SELECT 1; \(text)") }
            #expect(inScript?.sqlState == "22021")
            #expect(connection.isUsable)
        }
    }

    @Test func `accepts arrays of 100,000 elements`() async throws {
        try await withConnection { connection, _ in
            let numbers = (0..<100_000).map(Int64.init)
            let rows = try await connection.run(
                query("SELECT $1, cardinality($2), $3") {
                    $0.add(numbers)
                    $0.add((0..<100_000).map { _ in UUID() })
                    $0.add(numbers.map(String.init))
                }
            )
            #expect(try rows.int64s(0, 0) == numbers)
            #expect(try rows.int64(0, 1) == 100_000)
            #expect(try rows.strings(0, 2).last == "99999")
        }
    }

    @Test func `a value read as another type, or outside the result, is an error`() async throws {
        try await withConnection { connection, _ in
            let sql = "SELECT 1::int8, 'x'::text, ARRAY[1, NULL]::int8[], ARRAY[[1], [2]]::int8[], 1::numeric"
            let rows = try await connection.run(query(sql))
            #expect(throws: PostgresError.self) { try rows.int32(0, 0) }
            #expect(throws: PostgresError.self) { try rows.uuid(0, 0) }
            #expect(throws: PostgresError.self) { try rows.bytes(0, 0) }
            #expect(throws: PostgresError.self) { try rows.int64(0, 1) }
            #expect(throws: PostgresError.self) { try rows.int64s(0, 1) }
            #expect(throws: PostgresError.self) { try rows.strings(0, 2) }
            #expect(throws: PostgresError.self) { try rows.int64s(0, 2) }
            #expect(throws: PostgresError.self) { try rows.int64s(0, 3) }
            #expect(throws: PostgresError.self) { try rows.int64(0, 4) }
            for (row, column) in [(1, 0), (0, 5), (-1, 0), (0, -1), (.max, .max), (.min, .min)] {
                #expect(throws: PostgresError.self) { try rows.optionalInt64(row, column) }
                #expect(rows.isNull(row, column))
            }
        }
    }

    @Test func `returns the number of affected rows`() async throws {
        try await withConnection { connection, _ in
            let results = try await connection.run([
                query("CREATE TEMPORARY TABLE t (n int)")
            ])
            #expect(results[0].affected == 0)
            let rows = try await connection.run(query("INSERT INTO t SELECT generate_series(1, 5)"))
            #expect(rows.affected == 5)
            #expect(rows.count == 0)
        }
    }
}
