import FoundationEssentials
import Postgres
import TestSupport
import Testing

@Suite struct RoundTripTests {
    private let id = UUID()

    @Test func `scalars return unchanged`() async throws {
        try await withConnection { [id] connection, _ in
            let rows = try await connection.run(
                query("SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12") {
                    $0.add(id)
                    $0.add(Int64.min)
                    $0.add(Int32.max)
                    $0.add(Int16.min)
                    $0.add(true)
                    $0.add("grüße 👩‍👩‍👧")
                    $0.add(PostgresTimestamp(microseconds: 1_753_000_000_123_456))
                    $0.add(PostgresBytes([0, 255, 0]))
                    $0.add(PostgresJSON(Array(#"{"b": 1,  "a":2}"#.utf8)))
                    $0.add(PostgresJSONB(Array(#"{"b": 1,  "a":2}"#.utf8)))
                    $0.add(-0.1)
                    $0.add(Int.min)
                }
            )
            #expect(rows.count == 1)
            #expect(try rows.read(0, 0, as: UUID.self) == id)
            #expect(try rows.read(0, 1, as: Int64.self) == .min)
            #expect(try rows.read(0, 2, as: Int32.self) == .max)
            #expect(try rows.read(0, 3, as: Int16.self) == .min)
            #expect(try rows.read(0, 4, as: Bool.self))
            #expect(try rows.read(0, 5, as: String.self) == "grüße 👩‍👩‍👧")
            #expect(try rows.read(0, 6, as: PostgresTimestamp.self).microseconds == 1_753_000_000_123_456)
            #expect(try rows.read(0, 7, as: [UInt8].self) == [0, 255, 0])
            #expect(try rows.read(0, 8, as: [UInt8].self) == Array(#"{"b": 1,  "a":2}"#.utf8))
            #expect(try rows.read(0, 9, as: String.self) == #"{"a": 2, "b": 1}"#)
            #expect(try rows.read(0, 10, as: Double.self) == -0.1)
            #expect(try rows.read(0, 11, as: Int.self) == .min)
            #expect(try rows.read(0, 2, as: Int?.self) == Int(Int32.max))
        }
    }

    @Test func `the server receives the same values`() async throws {
        try await withConnection { [id] connection, _ in
            let rows = try await connection.run(
                query("SELECT $1::text, $2::text, ($3 AT TIME ZONE 'UTC')::text, $4::text, $5::text") {
                    $0.add(id)
                    $0.add([Int16(1), nil, -3])
                    $0.add(PostgresTimestamp(microseconds: -1))
                    $0.add([] as [String])
                    $0.add(["a,b", nil, "", "\"quoted\""])
                }
            )
            #expect(try rows.read(0, 0, as: String.self) == id.uuidString.lowercased())
            #expect(try rows.read(0, 1, as: String.self) == "{1,NULL,-3}")
            #expect(try rows.read(0, 2, as: String.self) == "1969-12-31 23:59:59.999999")
            #expect(try rows.read(0, 3, as: String.self) == "{}")
            #expect(try rows.read(0, 4, as: String.self) == #"{"a,b",NULL,"","\"quoted\""}"#)
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
                    $0.add(nil as PostgresTimestamp?)
                    $0.add(PostgresBytes(nil))
                    $0.add(PostgresJSON<[UInt8]>(nil))
                    $0.add(PostgresJSONB(nil))
                }
            )
            #expect((0..<10).allSatisfy { rows.isNull(0, $0) })
            #expect(try rows.read(0, 0, as: UUID?.self) == nil)
            #expect(try rows.read(0, 1, as: Int64?.self) == nil)
            #expect(try rows.read(0, 2, as: Int32?.self) == nil)
            #expect(try rows.read(0, 3, as: Int16?.self) == nil)
            #expect(try rows.read(0, 4, as: Bool?.self) == nil)
            #expect(try rows.read(0, 5, as: String?.self) == nil)
            #expect(try rows.read(0, 6, as: PostgresTimestamp?.self) == nil)
            #expect(try rows.read(0, 7, as: [UInt8]?.self) == nil)
            #expect(try rows.read(0, 8, as: [UInt8]?.self) == nil)
            #expect(try rows.read(0, 9, as: [UInt8]?.self) == nil)
            #expect(throws: PostgresError.self) { try rows.read(0, 0, as: UUID.self) }
            #expect(throws: PostgresError.self) { try rows.read(0, 5, as: String.self) }
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
            #expect(try rows.read(0, 0, as: [UUID].self).first == id)
            #expect(try rows.read(0, 1, as: [Int64].self) == [.min, 0, .max])
            #expect(try rows.read(0, 2, as: [Int64].self) == [Int64(Int32.min), Int64(Int32.max)])
            #expect(try rows.read(0, 3, as: [Int64].self) == [32767])
            #expect(try rows.read(0, 4, as: [Bool].self) == [true, false])
            #expect(try rows.read(0, 5, as: [String].self) == ["", "ä"])
            #expect(try rows.read(0, 6, as: [UUID].self) == [])
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
                    $0.add([PostgresTimestamp(microseconds: 5), nil])
                    $0.add([PostgresBytes([0]), PostgresBytes(nil)])
                    $0.add([PostgresJSON(slice), nil])
                }
            )
            #expect(rows.count == 2)
            #expect(try rows.read(0, 0, as: UUID.self) == id)
            #expect(try rows.read(0, 1, as: Int64.self) == 7)
            #expect(try rows.read(0, 2, as: Int64.self) == 7)
            #expect(try rows.read(0, 3, as: Int64.self) == 7)
            #expect(try rows.read(0, 4, as: Bool.self))
            #expect(try rows.read(0, 5, as: String.self) == "x")
            #expect(try rows.read(0, 6, as: PostgresTimestamp.self).microseconds == 5)
            #expect(try rows.read(0, 7, as: [UInt8].self) == [0])
            #expect(try rows.read(0, 8, as: [UInt8].self) == Array("[2]".utf8))
            #expect((0..<9).allSatisfy { rows.isNull(1, $0) })
        }
    }

    @Test func `infinite timestamps are read as the extreme values`() async throws {
        try await withConnection { connection, _ in
            let rows = try await connection.run(
                query("SELECT $1::text, $2::text, $1, $2") {
                    $0.add(PostgresTimestamp(microseconds: .max))
                    $0.add(PostgresTimestamp(microseconds: .min))
                }
            )
            #expect(try rows.read(0, 0, as: String.self) == "infinity")
            #expect(try rows.read(0, 1, as: String.self) == "-infinity")
            #expect(try rows.read(0, 2, as: PostgresTimestamp.self).microseconds == .max)
            #expect(try rows.read(0, 3, as: PostgresTimestamp.self).microseconds == .min)
            let error = await failure {
                _ = try await connection.run(query("SELECT $1") { $0.add(PostgresTimestamp(microseconds: .min + 1)) })
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
            #expect(try rows.read(0, 0, as: [Int64].self) == numbers)
            #expect(try rows.read(0, 1, as: Int64.self) == 100_000)
            #expect(try rows.read(0, 2, as: [String].self).last == "99999")
        }
    }

    @Test func `a value read as another type, or outside the result, is an error`() async throws {
        try await withConnection { connection, _ in
            let sql = "SELECT 1::int8, 'x'::text, ARRAY[1, NULL]::int8[], ARRAY[[1], [2]]::int8[], 1::numeric"
            let rows = try await connection.run(query(sql))
            #expect(throws: PostgresError.self) { try rows.read(0, 0, as: Int32.self) }
            #expect(throws: PostgresError.self) { try rows.read(0, 0, as: UUID.self) }
            #expect(throws: PostgresError.self) { try rows.read(0, 0, as: [UInt8].self) }
            #expect(throws: PostgresError.self) { try rows.read(0, 1, as: Int64.self) }
            #expect(throws: PostgresError.self) { try rows.read(0, 1, as: [Int64].self) }
            #expect(throws: PostgresError.self) { try rows.read(0, 2, as: [String].self) }
            #expect(throws: PostgresError.self) { try rows.read(0, 2, as: [Int64].self) }
            #expect(throws: PostgresError.self) { try rows.read(0, 3, as: [Int64].self) }
            #expect(throws: PostgresError.self) { try rows.read(0, 4, as: Int64.self) }
            for (row, column) in [(1, 0), (0, 5), (-1, 0), (0, -1), (.max, .max), (.min, .min)] {
                #expect(throws: PostgresError.self) { try rows.read(row, column, as: Int64?.self) }
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
