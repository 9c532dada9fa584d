import Postgres
import TestSupport
import Testing

@Suite struct RoundTripTests {
    @Test func `a connection answers`() async throws {
        let database = try await TestDatabase.make()
        let connection = try await database.connect()
        let rows = try await connection.run(Query(Statement("one", "SELECT 1")))
        #expect(try rows.int32(0, 0) == 1)
    }
}
