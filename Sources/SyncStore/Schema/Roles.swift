package import FoundationEssentials
package import Postgres

/// The roles with fewer rights than the tables' owner.
///
/// `sql/roles.sql` creates them and grants their rights.
package enum Roles {
    /// The role that gives gateways' login roles their rights.
    package static let gateway = "sluice_gateway"
    /// The role that gives the login roles of organizations' analysts their rights.
    package static let reader = "sluice_reader"

    /// Returns the name of the role for the readers of one organization. Only a Citus cluster has such roles.
    ///
    /// Login roles are members of this role. The role itself has no rights, and no session logs in with it.
    package static func reader(of organization: UUID) -> String {
        "sluice_reader_\(organization.uuidString.lowercased())"
    }

    /// SQL that creates the role ``reader(of:)`` if it is missing, and makes a quoted login role a member.
    package static func binding(_ quoted: String, to organization: UUID) -> String {
        """
        DO $$BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = '\(reader(of: organization))') THEN
                CREATE ROLE "\(reader(of: organization))" NOLOGIN;
            END IF;
        END$$;
        GRANT "\(reader(of: organization))" TO \(quoted)
        """
    }

    /// The statements for a superuser to run if the tables' owner must not create roles.
    package static let creation = "CREATE ROLE \(gateway) NOLOGIN; CREATE ROLE \(reader) NOLOGIN"

    static let script = String(decoding: PackageResources.roles_sql, as: UTF8.self)

    static let isGrantedStatement = Statement(
        "roles_is_granted",
        """
        SELECT EXISTS (
            SELECT FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
            WHERE c.relnamespace = current_schema()::regnamespace AND p.polname = 'gateway')
        """
    )

    /// Returns whether the roles have been granted their rights in this database.
    ///
    /// If so, the rights must be kept up to date.
    package static func isGranted(on connection: Connection) async throws(PostgresError) -> Bool {
        try await connection.run(Query(isGrantedStatement)).read(0, 0, as: Bool.self)
    }

    /// Creates missing roles, and updates their grants and the tables' policies.
    ///
    /// This method never runs at the same time as a migration.
    ///
    /// The first run needs a short exclusive lock on every table. While the run waits for a long read of a table, all
    /// other statements on this table wait too. Therefore the run gives up after a second, and tries again a little
    /// later.
    ///
    /// - Throws: SQLSTATE 42501 if the connection's role lacks the permission. Nothing was changed in that case.
    package static func grant(on connection: Connection) async throws(PostgresError) {
        for _ in 1..<attempts {
            do throws(PostgresError) {
                return try await grantOnce(on: connection)
            } catch {
                guard error.isRetryable else { throw error }
                try? await Task.sleep(for: .seconds(1))
            }
        }
        try await grantOnce(on: connection)
    }

    private static let attempts = 10

    private static func grantOnce(on connection: Connection) async throws(PostgresError) {
        do throws(PostgresError) {
            try await connection.execute(
                script: """
                    BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '1s';
                    -- Citus requires that a transaction that creates roles changes one shard after the other
                    SET LOCAL citus.multi_shard_modify_mode = 'sequential';
                    SELECT FROM schema_migrations_lock FOR UPDATE;
                    \(script)
                    COMMIT;
                    """,
                timeout: .seconds(600)
            )
        } catch {
            if connection.isUsable, connection.isInTransaction { _ = try? await connection.run(.rollback) }
            throw error
        }
    }
}
