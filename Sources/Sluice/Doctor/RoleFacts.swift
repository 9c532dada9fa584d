import CommandSupport
import Postgres

/// The rights of the role that the gateway connects as.
struct RoleFacts: Sendable {
    let name: String
    let isSuperuser: Bool
    let bypassesRowSecurity: Bool
    /// Tables of the gateway that belong to it, or to a role that it is a member of.
    let ownedTables: Int
    /// Tables with missing rights: `lanes (DELETE)`.
    let missing: [String]

    init(on connection: Connection) async throws {
        let rows = try await connection.run([Query(Self.role), Query(Self.rights)])
        name = try rows[0].string(0, 0)
        isSuperuser = try rows[0].bool(0, 1)
        bypassesRowSecurity = try rows[0].bool(0, 2)
        var owned = 0
        var missing: [String] = []
        for row in 0..<rows[1].count {
            if try rows[1].bool(row, 1) { owned += 1 }
            let rights = try rows[1].string(row, 2)
            if !rights.isEmpty { missing.append("\(try rows[1].string(row, 0)) (\(rights))") }
        }
        ownedTables = owned
        self.missing = missing
    }

    var diagnosis: Diagnosis {
        if !missing.isEmpty {
            let finding = "\(name) has no rights on \(missing.joined(separator: ", "))"
            return .failed("role", finding, "GRANT them to the role, as the owner of the tables.")
        }
        let advice =
            "Let the gateway connect as a role that owns nothing and may SELECT, INSERT, UPDATE and DELETE only."
        if isSuperuser { return .warning("role", "\(name) is a superuser with unrestricted access", advice) }
        if ownedTables > 0 {
            return .warning(
                "role",
                "\(name) owns \(ownedTables) of the tables, so it could change or drop them",
                advice
            )
        }
        if bypassesRowSecurity {
            return .warning("role", "\(name) has BYPASSRLS", "ALTER ROLE … NOBYPASSRLS; the gateway does not need it.")
        }
        return .ok("role", "\(name) owns no tables, and has all required rights")
    }

    private static let role = Statement(
        "doctor_role",
        "SELECT rolname::text, rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user"
    )

    /// The rights that `sql/roles.sql` grants to gateways.
    ///
    /// They only read the list of migrations, and may delete readers' bindings, as a purge does, but not write them.
    private static let rights = Statement(
        "doctor_rights",
        """
        SELECT c.relname::text, pg_has_role(c.relowner, 'USAGE'), coalesce((
            SELECT string_agg(r.name, ', ' ORDER BY r.position)
            FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) WITH ORDINALITY r (name, position)
            WHERE NOT has_table_privilege(c.oid, r.name)
                AND (r.name = 'SELECT' OR c.relname NOT IN ('schema_migrations', 'schema_migrations_lock'))
                AND (r.name IN ('SELECT', 'DELETE') OR c.relname <> 'readers')), '')
        FROM pg_class c
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
        ORDER BY c.relname
        """
    )
}
