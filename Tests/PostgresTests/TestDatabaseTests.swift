import Postgres
import TestSupport
import Testing

@Suite struct TestDatabaseTests {
    @Test func `a template is filled once, and its copies are separate`() async throws {
        let fillings = Log<Void>()
        let databases = try await withThrowingTaskGroup(of: TestDatabase.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    try await TestDatabase.make(template: "numbers") { connection in
                        fillings.add(())
                        try await connection.execute(script: "CREATE TABLE numbers AS SELECT 1 AS n")
                    }
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(fillings.elements.count == 1)
        for database in databases {
            let connection = try await database.connect()
            let rows = try await connection.run([
                query("INSERT INTO numbers VALUES (2)"), query("SELECT count(*) FROM numbers"),
            ])
            #expect(try rows[1].read(0, 0, as: Int64.self) == 2)
            await connection.closeAndWait()
            try await database.close()
        }
    }
}
