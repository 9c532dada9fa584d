package import Foundation
import Postgres
package import SyncModel
import SyncStore

extension Administration {
    /// The login roles that read an organization's rows, with the time of each grant; nil when there is no such
    /// organization.
    package func readers(
        of organization: UUID
    ) async throws(Problem) -> [(role: String, createdAt: Timestamp)]? {
        guard try await self.organization(organization) != nil else { return nil }
        return try await rows(Self.readersStatement, Parameters(of: organization), "list readers") { row in
            (try row.string("role_name"), try row.moment("created_at"))
        }
    }

    /// Lets a login role read one organization's rows by SQL, and no others.
    ///
    /// - Returns: whether that is new; nil when there is no such organization.
    /// - Throws: `validation_failed` for a role that does not exist, reads another organization, or would see all
    ///   organizations' rows whatever it is bound to; `forbidden` where this connection may not grant.
    package func addReader(_ role: String, to organization: UUID) async throws(Problem) -> Bool? {
        guard try await self.organization(organization) != nil else { return nil }
        guard let facts = try await facts(of: role) else {
            throw Self.refusal("there is no role \"\(role)\"; make it first: CREATE ROLE … LOGIN")
        }
        guard !facts.seesEverything else {
            throw Self.refusal(
                "\"\(role)\" would see every organization: it is, or may become, a superuser, one that bypasses "
                    + "row-level security, the owner of the tables, or the gateway"
            )
        }
        if let other = facts.organization {
            if other == organization { return false }
            throw Self.refusal("\"\(role)\" reads another organization; a role reads one")
        }
        let parameters = Parameters(of: organization, role, now())
        // where another role had to grant it, the grant exists already
        var grants = facts.isReader ? [] : ["GRANT \(Roles.reader) TO \(facts.quoted)"]
        if cluster.isThere { grants.append(Roles.binding(facts.quoted, to: organization)) }
        let grant = grants.isEmpty ? nil : grants.joined(separator: "; ")
        return try await bind(Query(Self.addReaderStatement, parameters), granting: grant)
    }

    /// Takes the right to read from a role. False when it did not read this organization.
    package func removeReader(_ role: String, from organization: UUID) async throws(Problem) -> Bool {
        let facts = try await facts(of: role)
        let parameters = Parameters(of: organization, role)
        let isRemoved: Bool
        if cluster.isThere, let facts, facts.organization == organization {
            // there the membership is the binding: it has to go
            let revocation = "REVOKE \"\(Roles.reader(of: organization))\" FROM \(facts.quoted)"
            isRemoved = try await bind(Query(Self.removeReaderStatement, parameters), granting: revocation)
        } else {
            isRemoved = try await run(Self.removeReaderStatement, parameters, "unbind a reader").affected > 0
        }
        if isRemoved, let facts, facts.isReader {
            // a member without a binding sees no rows: where this connection may not revoke, that is enough
            _ = try? await pool.withConnection { connection in
                try await connection.execute(script: "REVOKE \(Roles.reader) FROM \(facts.quoted)")
            }
        }
        return isRemoved
    }

    private struct RoleFacts {
        let quoted: String
        let seesEverything: Bool
        let organization: UUID?
        let isReader: Bool
    }

    private func facts(of role: String) async throws(Problem) -> RoleFacts? {
        let parameters = Parameters(role)
        let organization = try await rows(Self.bindingStatement, parameters, "look what a role reads") { row in
            try row.uuid("organization_id")
        }.first
        return try await rows(Self.roleStatement, parameters, "look at a role") { row in
            RoleFacts(
                quoted: try row.string("quoted"),
                seesEverything: try row.bool("sees_everything"),
                organization: organization,
                isReader: try row.bool("is_reader")
            )
        }.first
    }

    /// Changes binding and membership together.
    ///
    /// - Returns: whether a binding was changed.
    private func bind(_ change: Query, granting membership: String?) async throws(Problem) -> Bool {
        do {
            return try await pool.transaction { connection in
                let isChanged = try await connection.run(change).affected > 0
                if isChanged, let membership { try await connection.execute(script: membership) }
                return isChanged
            }
        } catch let error as PostgresError where error.sqlState == "42501" {
            throw Problem(
                .forbidden,
                "this database role may not do that; as a superuser, run: \(membership ?? "the same"); then this again"
            )
        } catch let error as PostgresError where error.sqlState == "42704" {
            throw Problem(.forbidden, "the roles are not there yet; run: sluice migrate --roles")
        } catch {
            throw failure.problem(error, doing: "bind a reader")
        }
    }

    private static func refusal(_ detail: String) -> Problem {
        Problem(.validationFailed, pointer: "", rule: "reader_role", detail)
    }

    static let readersStatement = Statement(
        "readers_list",
        "SELECT role_name::text AS role_name, created_at FROM readers WHERE organization_id = $1 ORDER BY role_name"
    )

    /// An organization that is being purged gets no reader.
    static let addReaderStatement = Statement(
        "readers_add",
        """
        INSERT INTO readers AS r (organization_id, role_name, created_at)
        SELECT o.id, $2::text, $3 FROM organizations o WHERE o.id = $1 AND o.status <> 'purging' FOR SHARE
        ON CONFLICT (role_name) DO NOTHING
        """,
        // no row of one server is held for a row on all of them: a purge that begins at this moment deletes it at its end
        variant: """
            INSERT INTO readers AS r (organization_id, role_name, created_at) VALUES ($1, $2::text::name, $3)
            ON CONFLICT (role_name) DO NOTHING
            """
    )

    static let removeReaderStatement = Statement(
        "readers_remove",
        "DELETE FROM readers WHERE organization_id = $1 AND role_name = $2::text::name"
    )

    /// The organization that a role reads. Asked by itself: beside a table of ours a cluster looks into the view of roles
    /// with the caller's own rights, which are not enough.
    static let bindingStatement = Statement(
        "readers_binding",
        "SELECT organization_id FROM readers WHERE role_name = $1::text::name"
    )

    /// A role's quoted name; whether it bypasses row-level security; and whether it may read an organization.
    static let roleStatement = Statement(
        "readers_role",
        """
        SELECT quote_ident(r.rolname) AS quoted,
            EXISTS (
                SELECT FROM pg_roles s
                WHERE (s.rolsuper OR s.rolbypassrls OR s.rolname = '\(Roles.gateway)'
                        OR s.oid = (SELECT c.relowner FROM pg_class c WHERE c.oid = 'mutations'::regclass))
                    AND pg_has_role(r.oid, s.oid, 'MEMBER')) AS sees_everything,
            EXISTS (
                SELECT FROM pg_roles s WHERE s.rolname = '\(Roles.reader)' AND pg_has_role(r.oid, s.oid, 'MEMBER')
            ) AS is_reader
        FROM pg_roles r WHERE r.rolname = $1::text::name
        """
    )

    static let readerStatements = [
        readersStatement, addReaderStatement, removeReaderStatement, bindingStatement, roleStatement,
    ]
}
