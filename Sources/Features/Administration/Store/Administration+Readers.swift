package import FoundationEssentials
package import Postgres
package import SyncModel
import SyncStore

/// A login role that reads an organization's rows.
package struct ReaderBinding: Sendable {
    package let role: String
    /// The time at which the role was bound; nil if the binding has no row.
    ///
    /// On a Citus cluster, a superuser can create a binding without a row: by granting the membership in the
    /// organization's reader role with SQL.
    package let createdAt: Timestamp?
    /// Whether the role has the memberships that the row-level security policies require.
    ///
    /// It is false, for example, if the row was copied to another server without the roles. Adding the reader again
    /// repairs the binding.
    package let isEffective: Bool
}

extension Administration {
    /// Returns the login roles that read an organization's rows, sorted by name; nil if the organization does not
    /// exist.
    ///
    /// A role is listed if it has a row in `readers`. On a Citus cluster, a role is also listed if it is a member of
    /// the organization's reader role, because there this membership alone permits reading.
    package func readers(of organization: UUID) async throws(Problem) -> [ReaderBinding]? {
        guard try await self.organization(organization) != nil else { return nil }
        let bound = try await rows(Self.readersStatement, Parameters(of: organization), "list readers") { row in
            (
                role: try row.read("role_name", as: String.self),
                createdAt: try row.read("created_at", as: Timestamp.self)
            )
        }
        let parameters = Parameters(Roles.reader(of: organization), bound.map(\.role))
        let members = try await rows(Self.membersStatement, parameters, "list members of reader roles") { row in
            (
                role: try row.read("role_name", as: String.self), isReader: try row.read("is_reader", as: Bool.self),
                isMember: try row.read("is_member", as: Bool.self)
            )
        }
        var bindings: [[UInt8]: ReaderBinding] = [:]
        for (role, createdAt) in bound {
            bindings[Array(role.utf8)] = ReaderBinding(role: role, createdAt: createdAt, isEffective: false)
        }
        for (role, isReader, isMember) in members {
            let key = Array(role.utf8)
            guard bindings[key] != nil || (cluster.isThere && isMember) else { continue }
            let isEffective = isReader && (isMember || !cluster.isThere)
            bindings[key] = ReaderBinding(role: role, createdAt: bindings[key]?.createdAt, isEffective: isEffective)
        }
        return bindings.sorted { $0.key.lexicographicallyPrecedes($1.key) }.map(\.value)
    }

    /// Permits a login role to read the rows of one organization by SQL, and no other rows.
    ///
    /// The call also repairs a binding whose memberships are missing. If this connection may not grant memberships, a
    /// superuser can grant them. The next call then finds the memberships and records the binding.
    ///
    /// - Returns: whether anything changed; nil if the organization does not exist.
    /// - Throws:
    ///   - `validation_failed` for a role that does not exist, that reads another organization, or that can already
    ///     read all organizations' rows.
    ///   - `forbidden` if this connection is not permitted to grant memberships.
    package func addReader(_ role: String, to organization: UUID) async throws(Problem) -> Bool? {
        guard try await self.organization(organization) != nil else { return nil }
        guard let facts = try await facts(of: role) else {
            throw Self.refusal("there is no role \"\(role)\"; create it first: CREATE ROLE … LOGIN")
        }
        guard !facts.seesEverything else {
            throw Self.refusal(
                "\"\(role)\" would see every organization: it is, or may become, a superuser, a role that bypasses "
                    + "row-level security, the owner of the tables, or the gateway"
            )
        }
        let others = facts.memberships.filter { $0 != Roles.reader(of: organization) }
        guard facts.organization ?? organization == organization, others.isEmpty || !cluster.isThere else {
            throw Self.refusal("\"\(role)\" reads another organization; a role reads one")
        }
        var grants = facts.isReader ? [] : ["GRANT \(Roles.reader) TO \(facts.quoted)"]
        if cluster.isThere, facts.memberships.isEmpty { grants.append(Roles.binding(facts.quoted, to: organization)) }
        if facts.organization == organization, grants.isEmpty { return false }
        let script = grants.isEmpty ? nil : grants.joined(separator: "; ")
        let change = Self.addReaderStatement(organization: organization, role: role, now: now())
        let isNew = try await bind(change, granting: script) { connection in
            // the memberships are not granted if the organization is being purged, or if a concurrent call has bound
            // the role to another organization
            let rows = try await connection.run(Self.bindingStatement(role: role))
            guard rows.count > 0 else { return false }
            return try rows.read(0, 0, as: UUID.self) == organization
        }
        return isNew || script != nil
    }

    /// Revokes a role's right to read; returns false if the role did not read this organization.
    package func removeReader(_ role: String, from organization: UUID) async throws(Problem) -> Bool {
        let facts = try await facts(of: role)
        let change = Self.removeReaderStatement(organization: organization, role: role)
        // on a Citus cluster, the membership in the organization's reader role permits reading, even without a row
        let isMember = cluster.isThere && facts?.memberships.contains(Roles.reader(of: organization)) == true
        let script = facts.map { "REVOKE \"\(Roles.reader(of: organization))\" FROM \($0.quoted)" }
        let hadRow = try await bind(change, granting: isMember ? script : nil) { _ in true }
        guard hadRow || isMember else { return false }
        if let facts, facts.isReader, facts.organization ?? organization == organization {
            // this also revokes the membership in the general reader role; a failure is ignored, because with this
            // membership alone the role reads no rows
            _ = try? await pool.withConnection { connection in
                try await connection.execute(script: "REVOKE \(Roles.reader) FROM \(facts.quoted)")
            }
        }
        return true
    }

    private struct RoleFacts {
        let quoted: String
        let seesEverything: Bool
        let organization: UUID?
        let isReader: Bool
        /// The reader roles of organizations (``Roles/reader(of:)``) that have this role as a direct member.
        let memberships: [String]
    }

    private func facts(of role: String) async throws(Problem) -> RoleFacts? {
        let parameters = Parameters(role)
        let organization = try await rows(Self.bindingStatement, parameters, "look up what a role reads") { row in
            try row.read("organization_id", as: UUID.self)
        }.first
        return try await rows(Self.roleStatement, parameters, "look up a role") { row in
            RoleFacts(
                quoted: try row.read("quoted"),
                seesEverything: try row.read("sees_everything"),
                organization: organization,
                isReader: try row.read("is_reader"),
                memberships: try row.read("memberships", as: String.self).split(separator: " ").map(String.init)
            )
        }.first
    }

    /// Changes the row of a binding. If `isBound` then returns true, also changes memberships in the same transaction.
    ///
    /// - Parameters:
    ///   - change: the statement that changes the row.
    ///   - membership: the SQL that grants or revokes memberships; nil if the memberships stay unchanged.
    ///   - isBound: whether to execute `membership`. Called after `change`.
    /// - Returns: whether the binding's row was changed.
    private func bind(
        _ change: Query,
        granting membership: String?,
        if isBound: @escaping @Sendable (Connection) async throws -> Bool
    ) async throws(Problem) -> Bool {
        do {
            return try await pool.transaction { connection in
                let isChanged = try await connection.run(change).affected > 0
                if let membership, try await isBound(connection) {
                    try await connection.execute(script: membership)
                }
                return isChanged
            }
        } catch let error as PostgresError where error.sqlState == "42501" {
            throw Problem(
                .forbidden,
                "the gateway's database role has no right to do this; as a superuser, run: "
                    + "\(membership ?? "the same"); then repeat this command"
            )
        } catch let error as PostgresError where error.sqlState == "42704" {
            throw Problem(.forbidden, "the roles do not exist; run: sluice migrate --roles")
        } catch {
            throw failure.problem(error, doing: "bind a reader")
        }
    }

    private static func refusal(_ detail: String) -> Problem {
        Problem(.validationFailed, pointer: "", rule: "reader_role", detail)
    }

    static let readersStatement = Statement(
        "readers_list",
        ["organization"],
        "SELECT role_name::text AS role_name, created_at FROM readers WHERE organization_id = :organization ORDER BY role_name"
    )

    /// Adds a binding, except to an organization that is being purged.
    static let addReaderStatement = Statement(
        "readers_add",
        ["organization", "role", "now"],
        """
        INSERT INTO readers AS r (organization_id, role_name, created_at)
        SELECT o.id, :role::text, :now FROM organizations o WHERE o.id = :organization AND o.status <> 'purging' FOR SHARE
        ON CONFLICT (role_name) DO NOTHING
        """,
        // a Citus cluster cannot lock the organization's row, which is on all servers, together with a row on one
        // server; if a purge begins at the same time, its last transaction deletes the new row
        variant: """
            INSERT INTO readers AS r (organization_id, role_name, created_at) VALUES (:organization, :role::text::name, :now)
            ON CONFLICT (role_name) DO NOTHING
            """
    )

    static let removeReaderStatement = Statement(
        "readers_remove",
        ["organization", "role"],
        "DELETE FROM readers WHERE organization_id = :organization AND role_name = :role::text::name"
    )

    /// Selects the organization that a role reads.
    ///
    /// This is not a part of ``roleStatement``: if a statement joins the view `pg_roles` with one of Sluice's tables, a
    /// Citus cluster reads the view with the rights of the connection's role, which are insufficient.
    static let bindingStatement = Statement(
        "readers_binding",
        ["role"],
        "SELECT organization_id FROM readers WHERE role_name = :role::text::name"
    )

    /// Selects a role's name, rights and memberships.
    ///
    /// - `quoted`: the role's quoted name.
    /// - `sees_everything`: whether the role can read all organizations' rows.
    /// - `is_reader`: whether the role has the rights of readers.
    /// - `memberships`: the reader roles of organizations that have the role as a direct member, separated by spaces.
    static let roleStatement = Statement(
        "readers_role",
        ["role"],
        """
        SELECT quote_ident(r.rolname) AS quoted,
            EXISTS (
                SELECT FROM pg_roles s
                WHERE (s.rolsuper OR s.rolbypassrls OR s.rolname = '\(Roles.gateway)'
                        OR s.oid = (SELECT c.relowner FROM pg_class c WHERE c.oid = 'mutations'::regclass))
                    AND pg_has_role(r.oid, s.oid, 'MEMBER')) AS sees_everything,
            EXISTS (
                SELECT FROM pg_roles s WHERE s.rolname = '\(Roles.reader)' AND pg_has_role(r.oid, s.oid, 'MEMBER')
            ) AS is_reader,
            array_to_string(ARRAY(
                SELECT g.rolname::text FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid
                WHERE m.member = r.oid AND g.rolname ~ '^sluice_reader_[0-9a-f-]{36}$'
                ORDER BY g.rolname), ' ') AS memberships
        FROM pg_roles r WHERE r.rolname = :role::text::name
        """
    )

    /// Selects login roles that read an organization's rows, or might read them.
    ///
    /// - `role`: the organization's reader role. Its direct members are selected.
    /// - `gateways`: the names of the login roles that have a row in `readers`. They are selected, too.
    /// - `is_reader`: whether the selected role has the rights of readers.
    /// - `is_member`: whether the selected role is a direct member of `role`.
    static let membersStatement = Statement(
        "readers_members",
        ["role", "gateways"],
        """
        SELECT u.rolname::text AS role_name,
            EXISTS (
                SELECT FROM pg_roles s WHERE s.rolname = '\(Roles.reader)' AND pg_has_role(u.oid, s.oid, 'MEMBER')
            ) AS is_reader,
            m.member IS NOT NULL AS is_member
        FROM pg_roles u
        LEFT JOIN (
            SELECT DISTINCT a.member FROM pg_auth_members a JOIN pg_roles g ON g.oid = a.roleid
            WHERE g.rolname = :role::text::name
        ) m ON m.member = u.oid
        WHERE u.rolname = ANY (:gateways::text[]::name[]) OR m.member IS NOT NULL
        ORDER BY u.rolname
        """
    )

    package static let readerStatements = [
        readersStatement, addReaderStatement, removeReaderStatement, bindingStatement, roleStatement, membersStatement,
    ]
}
