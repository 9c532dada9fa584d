package import Foundation
import JSONText
import Logging
import Postgres
package import SyncModel

/// What operators do: organizations and users here; entity types, upstreams and purges in the files beside it.
package struct Administration: Sendable {
    let pool: Pool
    let catalog: Catalog
    let now: TimeSource
    let failure: StoreFailure
    let logger: Logger

    // MARK: - Organizations

    /// A page of organizations by id: `{"organizations":[…],"next"}`.
    ///
    /// - Parameter limit: 1 to 1,000.
    package func organizations(limit: Int, cursor: String?) async throws(Problem) -> [UInt8] {
        var after: UUID?
        if let cursor {
            guard let id = UUID(parsing: cursor) else {
                throw Problem(.invalidRequest, pointer: "", rule: "parameter_invalid", "cursor is not one of ours")
            }
            after = id
        }
        var parameters = Parameters()
        parameters.add(after)
        parameters.add(Int64(limit + 1))
        let rows = try await run(Self.listStatement, parameters, "list organizations")
        var writer = JSONWriter()
        writer.beginObject()
        writer.name("organizations")
        writer.beginArray()
        do {
            let shown = try rows.read(OrganizationRow.init).prefix(limit)
            for organization in shown { organization.write(to: &writer) }
            writer.endArray()
            writer.member("next", rows.count > limit ? shown.last?.id.lowercased : nil)
        } catch {
            throw failure.problem(error, doing: "list organizations")
        }
        writer.endObject()
        return writer.bytes
    }

    /// An organization of a name; nil where none is called so. Looks at all of them: for commands.
    package func organization(named name: String) async throws(Problem) -> UUID? {
        var parameters = Parameters()
        parameters.add(name)
        let rows = try await run(Self.namedStatement, parameters, "look for an organization")
        do {
            return try rows.read { try $0.uuid("id") }.first
        } catch {
            throw failure.problem(error, doing: "look for an organization")
        }
    }

    static let namedStatement = Statement(
        "organizations_named",
        "SELECT id FROM organizations WHERE name = $1 AND status <> 'purging' ORDER BY id LIMIT 1"
    )

    /// One organization as JSON; nil when there is none.
    package func organization(_ id: UUID) async throws(Problem) -> [UInt8]? {
        var parameters = Parameters()
        parameters.add(id)
        let rows = try await run(Self.getStatement, parameters, "read an organization")
        do {
            return try rows.read(OrganizationRow.init).first?.json()
        } catch {
            throw failure.problem(error, doing: "read an organization")
        }
    }

    /// Creates or changes an organization; absent members keep their values, a null setting goes back to its default.
    ///
    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` with pointers; `not_found` while it is purged.
    package func put(_ id: UUID, body: [UInt8]) async throws(Problem) -> (created: Bool, json: [UInt8]) {
        let request = try OrganizationRequest(body)
        var parameters = Parameters()
        parameters.add(id)
        parameters.add(request.name)
        parameters.add(request.status?.rawValue)
        parameters.add(jsonb: request.settings)
        parameters.add(timestamp: now().microseconds)
        var feed = Parameters()
        feed.add(id)
        feed.add(Int64.random(in: 1...0xffff_ffff_ffff))
        do {
            let results = try await pool.transaction { [parameters, feed] connection in
                try await connection.run([
                    Query(Self.makeStatement, parameters), Query(Self.changeStatement, parameters),
                    Query(Self.feedStatement, feed),
                ])
            }
            catalog.invalidate(id)
            guard let organization = try results[1].read(OrganizationRow.init).first else {
                throw Problem(.notFound, "the organization is being purged")
            }
            return (results[0].affected > 0, organization.json())
        } catch {
            throw failure.problem(error, doing: "write an organization")
        }
    }

    // MARK: - Users

    /// Lets a user in. Nil when there is no such organization, else whether the user is new.
    package func putUser(_ user: UUID, in organization: UUID) async throws(Problem) -> Bool? {
        guard try await self.organization(organization) != nil else { return nil }
        var parameters = Parameters(of: LaneKey(organization: organization, user: user))
        parameters.add(timestamp: now().microseconds)
        let rows = try await run(Self.putUserStatement, parameters, "write a user")
        catalog.invalidate(organization)
        return rows.affected > 0
    }

    /// Shuts a user out of an organization with explicit provisioning; what the user pushed stays. False when the user
    /// was not known.
    package func deleteUser(_ user: UUID, in organization: UUID) async throws(Problem) -> Bool {
        let parameters = Parameters(of: LaneKey(organization: organization, user: user))
        let rows = try await run(Self.deleteUserStatement, parameters, "delete a user")
        catalog.invalidate(organization)
        return rows.affected > 0
    }

    func run(_ statement: Statement, _ parameters: Parameters, _ what: StaticString) async throws(Problem) -> Rows {
        do {
            return try await pool.run([Query(statement, parameters)])[0]
        } catch {
            throw failure.problem(error, doing: what)
        }
    }

    // MARK: - Statements

    static let listStatement = Statement(
        "organizations_list",
        """
        SELECT \(OrganizationRow.list) FROM organizations o
        WHERE $1::uuid IS NULL OR o.id > $1 ORDER BY o.id LIMIT $2
        """
    )

    static let getStatement = Statement(
        "organizations_get",
        "SELECT \(OrganizationRow.list) FROM organizations o WHERE o.id = $1"
    )

    static let makeStatement = Statement(
        "organizations_make",
        """
        INSERT INTO organizations AS o (id, name, status, settings, created_at, updated_at)
        VALUES ($1, coalesce($2, $1::uuid::text), coalesce($3, 'active'),
            jsonb_strip_nulls(coalesce($4::jsonb, '{}')), $5, $5)
        ON CONFLICT (id) DO NOTHING
        """
    )

    static let changeStatement = Statement(
        "organizations_change",
        """
        UPDATE organizations AS o
        SET name = coalesce($2, o.name), status = coalesce($3, o.status),
            settings = jsonb_strip_nulls(o.settings || coalesce($4::jsonb, '{}')), updated_at = $5
        WHERE o.id = $1 AND o.status <> 'purging'
        RETURNING \(OrganizationRow.list)
        """
    )

    static let feedStatement = Statement(
        "organizations_feed",
        "INSERT INTO feeds AS f (organization_id, epoch) VALUES ($1, $2) ON CONFLICT (organization_id) DO NOTHING"
    )

    static let putUserStatement = Statement(
        "users_put",
        """
        INSERT INTO users AS u (organization_id, user_id, created_at) VALUES ($1, $2, $3)
        ON CONFLICT (organization_id, user_id) DO NOTHING
        """
    )

    static let deleteUserStatement = Statement(
        "users_delete",
        "DELETE FROM users WHERE organization_id = $1 AND user_id = $2"
    )
}
