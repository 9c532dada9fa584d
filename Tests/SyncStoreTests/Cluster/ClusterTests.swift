import Foundation
import Postgres
import StoreSupport
import TestSupport
import Testing

@testable import SyncStore

/// Runs on a real cluster, whose coordinator `SLUICE_TEST_CITUS_URI` names. The usual tests run without one.
@Suite(.enabled(if: TestCluster.citusURI != nil)) struct ClusterTests {
    @Test func `distributes the tables once`() async throws {
        let database = try await Gateway.migratedDatabase()
        let connection = try await database.connect()
        defer { connection.close() }
        try await Distribution.spread(shards: 8, on: connection)
        let facts = try await Distribution.facts(on: connection)
        #expect(facts.isSpread && facts.shards == 4)
        let health = try await Distribution.health(on: connection)
        #expect(health.silent == [] && health.owners.count == 1)
    }

    /// A statement for certain organizations is one task on one server, for which the coordinator fetches no rows.
    @Test func `every statement for organizations runs on one server`() async throws {
        let database = try await Gateway.migratedDatabase()
        let connection = try await database.connect()
        defer { connection.close() }
        var wrong: [String] = []
        var unexplained: [String] = []
        for (statement, (name, text)) in SchemaTests.statements.flatMap({ statement in
            CitusSQLRewriterTests.texts(of: statement).map { (statement, $0) }
        }) {
            do throws(PostgresError) {
                guard
                    let plan = try await plan(
                        of: text,
                        statement.sql,
                        isOfOneRow: name != statement.name,
                        on: connection
                    )
                else {
                    unexplained.append(name)
                    continue
                }
                guard CitusSQLRewriter.ofAllServers[statement.name] == nil else { continue }
                let counts = plan.matches(of: /Task Count: (\d+)/).map(\.output.1)
                if counts.contains(where: { $0 != "1" }) || plan.contains("pull to coordinator") {
                    wrong.append("\(name): \(plan)")
                }
            } catch {
                wrong.append("\(name): \(error.message)")
                if connection.isInTransaction { _ = try await connection.run(.rollback) }
                // ignored: the statement was never prepared
                try? await connection.execute(script: "DEALLOCATE one")
            }
        }
        #expect(wrong.count == 0, "\(wrong.joined(separator: "\n\n"))")
        #expect(unexplained == [], "\(unexplained.count) of \(SchemaTests.statements.count) have no plan")
    }

    /// Returns the plan of a statement; nil if the values do not have the form that the statement requires.
    private func plan(
        of text: String,
        _ sql: String,
        isOfOneRow: Bool,
        on connection: Connection
    ) async throws(PostgresError) -> String? {
        try await connection.execute(script: "PREPARE one AS \(text)")
        let types = Statement("", "SELECT unnest(parameter_types)::text FROM pg_prepared_statements WHERE name = 'one'")
        let rows = try await connection.run(Query(types))
        // some texts are cast to another type
        let casts = Dictionary(sql.matches(of: /\$(\d+)::text::(\w+)/).map { (Int($0.1), String($0.2)) }) {
            $1
        }
        let values = try (0..<rows.count).map { row throws(PostgresError) in
            let type: String = try rows.read(row, 0)
            let name = casts[row + 1] ?? String(type.prefix { $0 != "[" })
            // the planner evaluates the values of one row, and no domain accepts the values below
            let element = isOfOneRow && name != "uuid" ? "NULL" : Self.values[name] ?? "NULL"
            return type.hasSuffix("[]") ? "ARRAY[\(element)]::\(type)" : "\(element)::\(type)"
        }
        let call = values.isEmpty ? "one" : "one(\(values.joined(separator: ", ")))"
        do {
            let explain = Query(Statement("", "EXPLAIN EXECUTE \(call)"))
            let lines = try await connection.run([.begin, explain, .rollback])[1]
            let plan = try (0..<lines.count).map { line throws(PostgresError) in
                try lines.read(line, 0, as: String.self)
            }
            try await connection.execute(script: "DEALLOCATE one")
            return plan.joined(separator: "\n")
        } catch  where error.sqlState?.hasPrefix("22") == true {
            // the value does not have the form that the statement requires
            try await connection.execute(script: "ROLLBACK; DEALLOCATE one")
            return nil
        }
    }

    private static let id = "'11111111-1111-4111-8111-111111111111'"
    private static let values = [
        "uuid": id, "text": id, "bigint": "1", "integer": "1", "smallint": "1", "boolean": "true", "json": "'{}'",
        "jsonb": "'{}'", "bytea": "'x'", "timestamp with time zone": "'2026-11-20T07:00:00Z'", "name": "'x'",
        "oid": "1", "double precision": "1",
    ]
}
