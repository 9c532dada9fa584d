import Foundation
import Postgres
import Testing

@Suite struct StatementTests {
    @Test func `sends numbers for the names of parameters, in the order of the list`() {
        let statement = Statement(
            "statement_names",
            ["user", "user_id", "at"],
            "SELECT :user::text, :user_id, ':MI', a[1:2], x::uuid, :user WHERE b <= :at",
            variant: "SELECT :at"
        )
        #expect(statement.sql == "SELECT $1::text, $2, ':MI', a[1:2], x::uuid, $1 WHERE b <= $3")
        #expect(statement.variant == "SELECT $3")
    }

    @Test func `leaves a text with numbers as it is`() {
        let statement = Statement("statement_numbers", "SELECT $1::text")
        #expect(statement.sql == "SELECT $1::text" && statement.parameters == [])
    }

    @Test func `binds values by name`() async throws {
        let statement = Statement(
            "statement_bound",
            ["text", "number"],
            "SELECT :number::int8 AS number, :text AS text"
        )
        try await withConnection { connection, _ in
            let rows = try await connection.run(statement(text: "a", number: Int64(7)))
            #expect(try rows.read(0, 0, as: Int64.self) == 7 && rows.read(0, 1, as: String.self) == "a")
        }
    }
}
