package import Foundation
package import Logging
package import Postgres
package import SyncModel

/// Administrative access to organizations.
///
/// Features extend it with their data of an organization.
package struct Administration: Sendable {
    package let store: Store

    package var pool: Pool { store.pool }
    package var cluster: Cluster { store.cluster }
    package var catalog: Catalog { store.catalog }
    package var identities: Identities { store.identities }
    package var failure: StoreFailure { store.failure }
    package var logger: Logger { store.logger }
    package func now() -> Timestamp { store.now() }

    // MARK: - Organizations

    /// A page of organizations by id, and the last of them where there are more.
    ///
    /// - Parameters:
    ///   - limit: 1 to 1,000.
    ///   - last: the last of the page before; nil starts at the beginning.
    package func organizations(
        limit: Int,
        after last: UUID?
    ) async throws(Problem) -> (organizations: [OrganizationRow], next: UUID?) {
        let parameters = Parameters(last, Int64(limit + 1))
        let found = try await rows(Self.listStatement, parameters, "list organizations", OrganizationRow.init)
        let shown = Array(found.prefix(limit))
        return (shown, found.count > limit ? shown.last?.id : nil)
    }

    /// The longest text that is searched for, in characters.
    package static let longestSearch = 50
    /// Organizations that a page of a search reads.
    static let searchWindow: Int64 = 2_000

    /// A page of the organizations by id whose name or id matches a text.
    ///
    /// The name contains the text, in any case, or the id begins with it. Reads a bounded number of organizations, so a
    /// page may be short, or empty, although others follow.
    package func organizations(
        like text: String,
        limit: Int,
        after last: UUID?
    ) async throws(Problem) -> (organizations: [OrganizationRow], next: UUID?) {
        let parameters = Parameters(last, Self.searchWindow, text, Int64(limit + 1))
        let found = try await rows(Self.searchStatement, parameters, "search for organizations") { row in
            let (looked, end) = (try row.int64("looked"), try row.optionalUUID("last"))
            return (looked, end, row.isNextNull ? nil : try OrganizationRow(&row))
        }
        let organizations = found.compactMap(\.2)
        let shown = Array(organizations.prefix(limit))
        if organizations.count > limit { return (shown, shown.last?.id) }
        guard let first = found.first, first.0 == Self.searchWindow else { return (shown, nil) }
        return (shown, first.1)
    }

    /// The id of the organization with a name; nil if no organization has it.
    ///
    /// Scans all of them: for commands.
    package func organization(named name: String) async throws(Problem) -> UUID? {
        let parameters = Parameters(name)
        return try await rows(Self.namedStatement, parameters, "look for an organization") { try $0.uuid("id") }.first
    }

    static let namedStatement = Statement(
        "organizations_named",
        "SELECT id FROM organizations WHERE name = $1 AND status <> 'purging' ORDER BY id LIMIT 1"
    )

    package func organization(_ id: UUID) async throws(Problem) -> OrganizationRow? {
        try await rows(Self.getStatement, Parameters(of: id), "read an organization", OrganizationRow.init).first
    }

    /// Creates or changes an organization.
    ///
    /// - Throws: `not_found` while it is purged; `external_id_taken` with pointers; `validation_failed` and
    ///   `overloaded` where it cannot have users' keys, or not yet.
    package func put(
        _ id: UUID,
        _ update: OrganizationUpdate
    ) async throws(Problem) -> (isNew: Bool, value: OrganizationRow) {
        let parameters = Parameters(
            of: id,
            update.name,
            update.status?.rawValue,
            BytesParameter.jsonb(update.settings),
            now()
        )
        let feed = Parameters(of: id, Int64.random(in: 1...0xffff_ffff_ffff))
        if update.wantsUserKeys, !catalog.userKeys.canMake { throw .nothingWrapsUserKeys }
        do {
            let written = try await pool.transaction { connection -> (isNew: Bool, value: OrganizationRow) in
                let results = try await connection.run([
                    Query(Self.makeStatement, parameters), Query(Self.changeStatement, parameters),
                ])
                if update.wantsUserKeys { try await Self.checkGateways(on: connection) }
                let isNew = results[0].affected > 0
                guard let row = try results[1].read(OrganizationRow.init).first else {
                    throw Problem(.notFound, "the organization is being purged")
                }
                _ = try await connection.run(Query(Self.feedStatement, feed))
                guard let names = update.externalIDs else { return (isNew, row) }
                try await Self.write(names, of: id, at: now(), on: connection)
                let named = try await connection.run(Query(Self.getStatement, Parameters(of: id)))
                return (isNew, try named.read(OrganizationRow.init).first ?? row)
            }
            catalog.invalidate(id)
            if update.externalIDs != nil { identities.invalidate() }
            return written
        } catch {
            throw failure.problem(error, doing: "write an organization")
        }
    }

    /// - Throws: `overloaded` where a gateway runs that could not read values sealed with users' keys.
    private static func checkGateways(on connection: Connection) async throws {
        let parameters = Parameters("0023_user_keys", UserFacts.gatewayMemory)
        let found = try await connection.run(Query(Self.oldGatewayStatement, parameters))
        guard try !found.bool(0, 0) else {
            throw Problem.overloaded(
                "a gateway of an older version without support for user keys is running: update all gateways first"
            )
        }
    }

    package func run(_ statement: Statement, _ parameters: Parameters, _ what: StaticString) async throws(Problem)
        -> Rows
    {
        do {
            return try await pool.run([Query(statement, parameters)])[0]
        } catch {
            throw failure.problem(error, doing: what)
        }
    }

    package func rows<Row>(
        _ statement: Statement,
        _ parameters: Parameters,
        _ what: StaticString,
        _ read: (inout RowReader) throws -> Row
    ) async throws(Problem) -> [Row] {
        let rows = try await run(statement, parameters, what)
        do {
            return try rows.read(read)
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

    /// Organizations behind $1 that match $3, up to $4.
    ///
    /// It reads $2 of them. Each row has how many were read, and the last of these.
    static let searchStatement = Statement(
        "organizations_search",
        """
        WITH looked AS MATERIALIZED (
            SELECT x.id, x.name FROM organizations x
            WHERE $1::uuid IS NULL OR x.id > $1 ORDER BY x.id LIMIT $2
        )
        SELECT e.looked, e.last, \(OrganizationRow.list)
        FROM (
            SELECT (SELECT count(*) FROM looked) AS looked, (SELECT l.id FROM looked l ORDER BY l.id DESC LIMIT 1) AS last
        ) e
        LEFT JOIN LATERAL (
            SELECT l.id FROM looked l
            WHERE strpos(lower(l.name), lower($3)) > 0 OR starts_with(l.id::text, lower($3))
            ORDER BY l.id
            LIMIT $4
        ) k ON true
        LEFT JOIN organizations o ON o.id = k.id
        ORDER BY o.id
        """
    )

    package static let getStatement = Statement(
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

    /// Whether a gateway runs that lacks a migration.
    ///
    /// $1: the migration that a gateway must have; $2: the seconds for which a silent gateway counts as running.
    static let oldGatewayStatement = Statement(
        "organizations_old_gateway",
        "SELECT \(UserFacts.hasOldGateway("$1", within: "$2")) AS has_old_gateway"
    )

    package static let isThereStatement = Statement(
        "webhooks_organization",
        "SELECT 1 FROM organizations WHERE id = $1 AND status <> 'purging'"
    )

    /// Serializes the writers of an organization's upstream.
    ///
    /// No writer gets the lock once a purge has begun, which waits for this lock.
    package static let lockUpstreamStatement = Statement(
        "upstreams_lock",
        "SELECT 1 FROM organizations WHERE id = $1 AND status <> 'purging' FOR NO KEY UPDATE"
    )

    package static let statements = [
        isThereStatement, lockUpstreamStatement,
        namedStatement, listStatement, searchStatement, getStatement, makeStatement, changeStatement, feedStatement,
        oldGatewayStatement,
    ]
}

extension Problem {
    /// Without a master key nothing is sealed, and users' keys would guard nothing.
    static var nothingWrapsUserKeys: Problem {
        Problem(
            .validationFailed,
            pointer: "/settings/user_keys",
            rule: Rule.needsMasterKey,
            "user keys require encryption at rest: set SLUICE_MASTER_KEY_FILE, with a key that wraps"
        )
    }
}
