package import FoundationEssentials
import JSONText
package import Logging
package import Postgres
package import SyncModel

/// Administrative access to organizations.
///
/// Features extend this type with their own data about organizations.
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

    /// Returns a page of organizations, ordered by id. If there are further organizations, also returns the last one of
    /// the page.
    ///
    /// - Parameters:
    ///   - limit: 1 to 1,000.
    ///   - last: the last organization of the previous page; nil to start at the beginning.
    package func organizations(
        limit: Int,
        after last: UUID?
    ) async throws(Problem) -> (organizations: [OrganizationRow], next: UUID?) {
        let parameters = Parameters(last, limit + 1)
        let found = try await rows(Self.listStatement, parameters, "list organizations", OrganizationRow.init)
        let shown = Array(found.prefix(limit))
        return (shown, found.count > limit ? shown.last?.id : nil)
    }

    /// The maximum length of a search text, in characters.
    package static let longestSearch = 50
    /// The maximum number of organizations that a page of a search reads.
    static let searchWindow: Int64 = 2_000

    /// Returns a page of organizations whose name or id matches a text, ordered by id.
    ///
    /// An organization matches if its name contains the text, ignoring case, or if its id begins with the text. A page
    /// reads a limited number of organizations. Therefore the page can be short or empty although further organizations
    /// match.
    package func organizations(
        like text: String,
        limit: Int,
        after last: UUID?
    ) async throws(Problem) -> (organizations: [OrganizationRow], next: UUID?) {
        let parameters = Parameters(last, Self.searchWindow, text, limit + 1)
        let found = try await rows(Self.searchStatement, parameters, "search for organizations") { row in
            let (looked, end) = (try row.read("looked", as: Int64.self), try row.read("last", as: UUID?.self))
            return (looked, end, row.isNextNull ? nil : try OrganizationRow(&row))
        }
        let organizations = found.compactMap(\.2)
        let shown = Array(organizations.prefix(limit))
        if organizations.count > limit { return (shown, shown.last?.id) }
        guard let first = found.first, first.0 == Self.searchWindow else { return (shown, nil) }
        return (shown, first.1)
    }

    /// Returns the id of the organization with a name; nil if no organization has this name.
    ///
    /// Only commands use this method, because it scans all organizations.
    package func organization(named name: String) async throws(Problem) -> UUID? {
        let parameters = Parameters(name)
        return try await rows(Self.namedStatement, parameters, "look for an organization") {
            try $0.read("id", as: UUID.self)
        }.first
    }

    static let namedStatement = Statement(
        "organizations_named",
        ["name"],
        "SELECT id FROM organizations WHERE name = :name AND status <> 'purging' ORDER BY id LIMIT 1"
    )

    package func organization(_ id: UUID) async throws(Problem) -> OrganizationRow? {
        try await rows(Self.getStatement, Parameters(of: id), "read an organization", OrganizationRow.init).first
    }

    /// Creates or changes an organization.
    ///
    /// - Throws: `not_found` while the organization is being purged; `external_id_taken` with pointers; the errors of
    ///   the database. `validation_failed` is thrown if users' keys are enabled without a master key or while an older
    ///   gateway is running, or if the order of lanes does not suit the upstream.
    package func put(
        _ id: UUID,
        _ update: OrganizationUpdate
    ) async throws(Problem) -> (isNew: Bool, value: OrganizationRow) {
        let parameters = Parameters(
            of: id,
            update.name,
            update.status?.rawValue,
            PostgresJSONB(update.settings),
            now()
        )
        let feed = Parameters(of: id, Int64.random(in: 1...0xffff_ffff_ffff))
        if update.enablesUserKeys, !catalog.userKeys.canMake { throw .nothingWrapsUserKeys }
        do {
            let written = try await pool.transaction { connection -> (isNew: Bool, value: OrganizationRow) in
                let results = try await connection.run([
                    Query(Self.makeStatement, parameters), Query(Self.changeStatement, parameters),
                ])
                if update.enablesUserKeys { try await Self.checkGateways(on: connection) }
                let isNew = results[0].affected > 0
                guard let row = try results[1].read(OrganizationRow.init).first else {
                    throw Problem(.notFound, "the organization is being purged")
                }
                if update.setsOrder { try await Self.checkOrder(of: row, on: connection) }
                _ = try await connection.run(Query(Self.feedStatement, feed))
                guard let names = update.externalIDs else { return (isNew, row) }
                try await Self.write(names, of: id, at: now(), on: connection)
                let named = try await connection.run(Self.getStatement(organization: id))
                return (isNew, try named.read(OrganizationRow.init).first ?? row)
            }
            catalog.invalidate(id)
            if update.externalIDs != nil { identities.invalidate() }
            return written
        } catch {
            throw failure.problem(error, doing: "write an organization")
        }
    }

    /// Refuses the setting `order: "lane"` if the upstream supports batches.
    private static func checkOrder(of organization: OrganizationRow, on connection: Connection) async throws {
        guard organization.settings.order == .lane else { return }
        let found = try await connection.run(Query(hasBatchStatement, Parameters(of: organization.id)))
        guard found.count > 0 else { return }
        let detail = "the upstream sends batches, which require the order 'dependencies'; first set 'batch' to null"
        throw Problem(.validationFailed, pointer: "/settings/order", rule: Rule.range, detail)
    }

    static let hasBatchStatement = Statement(
        "upstreams_has_batch",
        ["organization"],
        "SELECT 1 FROM upstreams WHERE organization_id = :organization AND batch IS NOT NULL"
    )

    /// - Throws: `validation_failed` if a gateway is running that cannot read values sealed with users' keys.
    private static func checkGateways(on connection: Connection) async throws {
        let found = try await connection.run(
            Self.oldGatewayStatement(migration: "0023_user_keys", seconds: UserFacts.gatewayMemory)
        )
        guard try !found.read(0, 0) else {
            throw Problem.oldGateway(
                without: "user keys",
                pointer: "/settings/user_keys",
                rule: "user_keys_old_gateway"
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
        ["after", "limit"],
        """
        SELECT \(OrganizationRow.list) FROM organizations o
        WHERE :after::uuid IS NULL OR o.id > :after ORDER BY o.id LIMIT :limit
        """
    )

    /// Returns up to `limit` organizations after `after` that match `text`.
    ///
    /// The statement reads at most `scan` organizations. Each row also contains the number of organizations that were
    /// read, and the last of these organizations.
    static let searchStatement = Statement(
        "organizations_search",
        ["after", "scan", "text", "limit"],
        """
        WITH looked AS MATERIALIZED (
            SELECT x.id, x.name FROM organizations x
            WHERE :after::uuid IS NULL OR x.id > :after ORDER BY x.id LIMIT :scan
        )
        SELECT e.looked, e.last, \(OrganizationRow.list)
        FROM (
            SELECT (SELECT count(*) FROM looked) AS looked, (SELECT l.id FROM looked l ORDER BY l.id DESC LIMIT 1) AS last
        ) e
        LEFT JOIN LATERAL (
            SELECT l.id FROM looked l
            WHERE strpos(lower(l.name), lower(:text)) > 0 OR starts_with(l.id::text, lower(:text))
            ORDER BY l.id
            LIMIT :limit
        ) k ON true
        LEFT JOIN organizations o ON o.id = k.id
        ORDER BY o.id
        """
    )

    package static let getStatement = Statement(
        "organizations_get",
        ["organization"],
        "SELECT \(OrganizationRow.list) FROM organizations o WHERE o.id = :organization"
    )

    static let makeStatement = Statement(
        "organizations_make",
        ["organization", "name", "status", "settings", "now"],
        """
        INSERT INTO organizations AS o (id, name, status, settings, created_at, updated_at)
        VALUES (:organization, coalesce(:name, :organization::uuid::text), coalesce(:status, 'active'),
            jsonb_strip_nulls(coalesce(:settings::jsonb, '{}')), :now, :now)
        ON CONFLICT (id) DO NOTHING
        """
    )

    static let changeStatement = Statement(
        "organizations_change",
        ["organization", "name", "status", "settings", "now"],
        """
        UPDATE organizations AS o
        SET name = coalesce(:name, o.name), status = coalesce(:status, o.status),
            settings = jsonb_strip_nulls(o.settings || coalesce(:settings::jsonb, '{}')), updated_at = :now
        WHERE o.id = :organization AND o.status <> 'purging'
        RETURNING \(OrganizationRow.list)
        """
    )

    static let feedStatement = Statement(
        "organizations_feed",
        ["organization", "epoch"],
        "INSERT INTO feeds AS f (organization_id, epoch) VALUES (:organization, :epoch) ON CONFLICT (organization_id) DO NOTHING"
    )

    /// Reads whether a running gateway lacks a migration.
    ///
    /// `migration` is the migration that every gateway must have. `seconds` is the time without a heartbeat after which
    /// a gateway is assumed to have ended.
    static let oldGatewayStatement = Statement(
        "organizations_old_gateway",
        ["migration", "seconds"],
        "SELECT \(UserFacts.hasOldGateway(":migration", within: ":seconds")) AS has_old_gateway"
    )

    package static let isThereStatement = Statement(
        "webhooks_organization",
        ["organization"],
        "SELECT 1 FROM organizations WHERE id = :organization AND status <> 'purging'"
    )

    /// Serializes the writers of an organization's upstream.
    ///
    /// A purge waits for this lock. Once the purge has begun, no writer gets the lock.
    package static let lockUpstreamStatement = Statement(
        "upstreams_lock",
        ["organization"],
        "SELECT 1 FROM organizations WHERE id = :organization AND status <> 'purging' FOR NO KEY UPDATE"
    )

    package static let statements = [
        isThereStatement, lockUpstreamStatement, hasBatchStatement,
        namedStatement, listStatement, searchStatement, getStatement, makeStatement, changeStatement, feedStatement,
        oldGatewayStatement,
    ]
}

extension Problem {
    /// The problem for an organization that enables users' keys while no master key is configured.
    ///
    /// Without a master key, no value is encrypted. Therefore users' keys would protect nothing.
    static var nothingWrapsUserKeys: Problem {
        Problem(
            .validationFailed,
            pointer: "/settings/user_keys",
            rule: Rule.needsMasterKey,
            "user keys require encryption at rest: set SLUICE_MASTER_KEY_FILE to a file with a key for new data keys"
        )
    }
}

/// An organization, with the data that operators see.
package struct OrganizationRow: Sendable {
    static let list = """
        o.id, o.name, o.status, o.settings, o.created_at, o.updated_at, \(names("issuer")), \(names("external_id"))
        """

    private static func names(_ column: String) -> String {
        """
        ARRAY(
                SELECT x.\(column)::text FROM external_ids x WHERE x.organization_id = o.id
                ORDER BY x.issuer, x.external_id
            ) AS \(column)s
        """
    }

    package let id: UUID
    package let name: String
    package let status: OrganizationStatus
    package let settings: OrganizationSettings
    package let createdAt: Timestamp
    package let updatedAt: Timestamp
    /// The organization's external ids, ordered by issuer and id.
    package let externalIDs: [ExternalID]

    /// Reads the columns of ``list``.
    init(_ row: inout RowReader) throws {
        id = try row.read("id")
        name = try row.read("name")
        status = try row.choice("status")
        settings = OrganizationSettings(stored: try JSONTree(parsing: row.read("settings")).root)
        createdAt = try row.read("created_at")
        updatedAt = try row.read("updated_at")
        let issuers: [String] = try row.read("issuers")
        externalIDs = zip(issuers, try row.read("external_ids", as: [String].self)).map { issuer, id in
            ExternalID(issuer: ByteExactString(issuer), id: ByteExactString(id))
        }
    }
}

/// A change of an organization, or the description of a new organization.
///
/// In an existing organization, a nil member keeps the present value. In a new organization, a nil member means the
/// default.
package struct OrganizationUpdate: Sendable {
    /// The name, 1 to 200 characters.
    package var name: String?
    /// The status, which must not be `purging`.
    package var status: OrganizationStatus?
    /// The changed settings as JSON text; a null member resets a setting to its default.
    package var settings: [UInt8]?
    /// Whether the settings enable users' own keys.
    package var enablesUserKeys = false
    /// Whether the settings contain the order of lanes.
    package var setsOrder = false
    /// The complete list of external ids, without repetitions.
    ///
    /// The list has at most ``Administration/maximumExternalIDs`` ids.
    package var externalIDs: [ExternalID]?

    package init(name: String? = nil, status: OrganizationStatus? = nil) {
        self.name = name
        self.status = status
    }
}

extension Store {
    /// Administrative access to organizations.
    package var administration: Administration { Administration(store: self) }
}
