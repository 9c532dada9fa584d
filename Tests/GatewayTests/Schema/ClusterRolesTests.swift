import Foundation
import GatewaySupport
import JSONText
import Postgres
import SyncModel
import TestSupport
import Testing

/// Tests tenants' analysts, and gateways that do not own the tables, on a real cluster. `SLUICE_TEST_CITUS_URI` names
/// its coordinator. On a cluster, analysts are bound by a role membership, which all servers have.
@Suite(.enabled(if: TestCluster.citusURI != nil), .timeLimit(.minutes(10))) struct ClusterRolesTests {
    private static let secured = ["organizations", "users", "feeds", "mutations", "entities"]

    @Test func `an analyst reads one organization on every server, and no organization after removal`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        let owner = try await database.connect()
        defer { owner.close() }
        func sluice(_ arguments: String...) async throws -> Program.Result {
            try await Program.run(arguments, environment: ["SLUICE_DATABASE_URL": database.uri])
        }
        // the command can be repeated
        for _ in 0..<2 {
            let migrated = try await sluice("migrate", "--roles")
            #expect(migrated.status == 0, "\(migrated.complaint)")
        }
        let tenants = (0..<4).map { _ in (id: UUID().lowercased, role: "t_reader_\(UInt32.random(in: 0...(.max)))") }
        let moment = "'2026-11-20T07:00:00Z'"
        for (id, role) in tenants {
            let created = try await sluice("organizations", "create", "Tenant", "--id", id, "--force")
            #expect(created.status == 0, "\(created.complaint)")
            try await owner.execute(
                script: """
                    CREATE ROLE \(role) LOGIN;
                    INSERT INTO users (organization_id, user_id, created_at) VALUES ('\(id)', '\(id)', \(moment))
                    """
            )
            let added = try await sluice("organizations", "readers", "add", id, role)
            #expect(added.status == 0 && added.output == "\(role) reads \(id)\n", "\(added.complaint)")
        }
        for (index, (id, role)) in tenants.enumerated() {
            let other = tenants[(index + 1) % tenants.count].id
            for uri in database.uris(user: role) {
                let connection = try await Connection.open(ConnectionConfiguration(uri: uri))
                #expect(try await ids("SELECT id::text FROM organizations", on: connection) == [id], "\(uri)")
                #expect(try await ids("SELECT organization_id::text FROM users", on: connection) == [id], "\(uri)")
                for table in Self.secured {
                    let column = table == "organizations" ? "id" : "organization_id"
                    let theirs = "SELECT \(column)::text FROM \(table) WHERE \(column) = '\(other)'"
                    #expect(try await ids(theirs, on: connection) == [], "\(table) \(uri)")
                }
                for forbidden in [
                    "SELECT 1 FROM upstreams", "DELETE FROM users", "UPDATE organizations SET name = 'mine'",
                    "SELECT 1 FROM request_quotas", "SET ROLE sluice_gateway", "GRANT sluice_gateway TO \(role)",
                    "GRANT \"sluice_reader_\(other)\" TO \(role)",
                ] {
                    let error = await #expect(throws: PostgresError.self) {
                        try await connection.execute(script: forbidden)
                    }
                    #expect(error?.sqlState == "42501", "\(forbidden) \(uri): \(error?.message ?? "-")")
                }
                await connection.closeAndWait()
            }
        }

        // a role bound to two organizations reads neither; it reads the first again after the other binding is removed
        let (first, second) = (tenants[0], tenants[1])
        try await owner.execute(script: "GRANT \"sluice_reader_\(second.id)\" TO \(first.role)")
        try await expect([], of: first.role, in: database)
        try await owner.execute(script: "REVOKE \"sluice_reader_\(second.id)\" FROM \(first.role)")
        try await expect([first.id], of: first.role, in: database)

        let removed = try await sluice("organizations", "readers", "remove", first.id, first.role)
        #expect(removed.status == 0, "\(removed.complaint)")
        for uri in database.uris(user: first.role) {
            let connection = try await Connection.open(ConnectionConfiguration(uri: uri))
            let error = await #expect(throws: PostgresError.self) {
                _ = try await ids("SELECT id::text FROM organizations", on: connection)
            }
            #expect(error?.sqlState == "42501")
            await connection.closeAndWait()
        }
        // even with the privilege to read, a role that is bound to no organization reads nothing
        try await owner.execute(script: "GRANT sluice_reader TO \(first.role)")
        try await expect([], of: first.role, in: database)
        try await expect([second.id], of: second.role, in: database)
        let again = try await sluice("organizations", "readers", "add", second.id, first.role)
        #expect(again.status == 0, "\(again.complaint)")
        try await expect([second.id], of: first.role, in: database)

        for (id, role) in tenants {
            try await owner.execute(script: "DROP ROLE \(role); DROP ROLE IF EXISTS \"sluice_reader_\(id)\"")
        }
    }

    /// Rows of `readers` are copied with the data, but memberships are not copied. The owner of the tables may lack
    /// CREATEROLE.
    @Test func `repairs a reader without its membership and removes a membership without a row`()
        async throws
    {
        let database = try await LiveGateway.migratedDatabase()
        let owner = try await database.connect()
        defer { owner.close() }
        func sluice(_ arguments: String...) async throws -> Program.Result {
            try await Program.run(arguments, environment: ["SLUICE_DATABASE_URL": database.uri])
        }
        #expect(try await sluice("migrate", "--roles").status == 0)
        let (id, role) = (UUID().lowercased, "t_reader_\(UInt32.random(in: 0...(.max)))")
        #expect(try await sluice("organizations", "create", "Tenant", "--id", id, "--force").status == 0)
        let row = "INSERT INTO readers (organization_id, role_name, created_at) VALUES ('\(id)', '\(role)', now())"
        try await owner.execute(script: "CREATE ROLE \(role) LOGIN; \(row)")
        #expect(try await sluice("organizations", "readers", "list", id).complaint.contains("a membership is missing"))
        let repaired = try await sluice("organizations", "readers", "add", id, role)
        #expect(repaired.status == 0, "\(repaired.complaint)")
        try await expect([id], of: role, in: database)
        #expect(try await sluice("organizations", "readers", "list", id).complaint == "")

        // the state after a superuser granted the membership, which the owner must not grant
        try await owner.execute(script: "DELETE FROM readers WHERE role_name = '\(role)'")
        #expect(try await sluice("organizations", "readers", "list", id).output == "\(role)\n")
        let added = try await sluice("organizations", "readers", "add", id, role)
        #expect(added.status == 0, "\(added.complaint)")
        try await owner.execute(script: "DELETE FROM readers WHERE role_name = '\(role)'")
        let removed = try await sluice("organizations", "readers", "remove", id, role)
        #expect(removed.status == 0, "\(removed.complaint)")
        #expect(try await sluice("organizations", "readers", "list", id).output == "")
        try await owner.execute(script: "DROP ROLE \(role); DROP ROLE IF EXISTS \"sluice_reader_\(id)\"")
    }

    private func expect(_ organizations: [String], of role: String, in database: TestDatabase) async throws {
        for uri in database.uris(user: role) {
            let connection = try await Connection.open(ConnectionConfiguration(uri: uri))
            #expect(
                try await ids("SELECT id::text FROM organizations", on: connection) == organizations,
                "\(role) \(uri)"
            )
            await connection.closeAndWait()
        }
    }

    private func ids(_ sql: String, on connection: Connection) async throws -> [String] {
        let rows = try await connection.run(Query(Statement("", sql)))
        return try (0..<rows.count).map { try rows.read($0, 0, as: String.self) }
    }
}
