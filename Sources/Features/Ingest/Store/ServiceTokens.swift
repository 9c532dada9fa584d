package import FoundationEssentials
package import Postgres
package import SyncModel
package import SyncStore
import Synchronization

/// Verifies service tokens, with a cache.
///
/// Cached tokens are at most five seconds old, so that a revoked token is refused within five seconds.
package final class ServiceTokens: Sendable {
    /// The maximum number of cached tokens, including unknown tokens.
    static let capacity = 20_000

    private struct Key: Hashable {
        let organization: UUID
        let id: UUID
    }

    private struct Found {
        let hash: [UInt8]
        let source: String
        let lastUsedAt: Timestamp?
    }

    private struct Known {
        /// The token; nil if there is no such token, or if the token was revoked.
        let found: Found?
        let readAt: Timestamp
    }

    private let now: TimeSource
    private let failure: StoreFailure
    private let lookup: GatheredLookup<Key, Found>
    private let cache = Mutex(GenerationCache<Key, Known>(capacity: capacity))

    init(pool: Pool, cluster: Cluster, now: @escaping TimeSource, failure: StoreFailure) {
        lookup = GatheredLookup { keys in
            var found: [Key: Found] = [:]
            for part in cluster.parts(keys, by: \.organization) {
                let query = Self.findStatement(organizations: part.map(\.organization), ids: part.map(\.id))
                for var row in try await pool.runByIndex(query) {
                    let key = Key(organization: try row.read("organization_id"), id: try row.read("id"))
                    found[key] = Found(
                        hash: try row.read("secret_hash"),
                        source: try row.read("source"),
                        lastUsedAt: try row.read("last_used_at")
                    )
                }
            }
            return found
        }
        self.now = now
        self.failure = failure
    }

    /// Removes a token from the cache. Call it after this gateway revoked the token.
    package func invalidate(_ id: UUID, of organization: UUID) {
        cache.withLock { $0.remove(Key(organization: organization, id: id)) }
    }

    /// Returns the sender that a token authenticates; nil for an invalid token.
    ///
    /// - Throws: `store_unavailable`.
    package func bearer(of token: ServiceToken) async throws(Problem) -> IngestBearer? {
        let moment = now()
        guard let found = try await known(token, at: moment).found, token.matches(found.hash) else { return nil }
        let isChange = found.lastUsedAt.map { $0.adding(seconds: 60) <= moment } ?? true
        return IngestBearer(
            organization: token.organization,
            tokenID: token.id,
            source: found.source,
            isFirstUse: isChange
        )
    }

    private func known(_ token: ServiceToken, at moment: Timestamp) async throws(Problem) -> Known {
        let key = Key(organization: token.organization, id: token.id)
        let old = cache.withLock { $0.find(key) }
        if let old, old.readAt <= moment, moment.microseconds - old.readAt.microseconds < Catalog.lifetime {
            return old
        }
        let known: Known
        do {
            known = Known(found: try await lookup.find(key), readAt: moment)
        } catch {
            throw failure.problem(error, doing: "look up a service token")
        }
        cache.withLock { $0.insert(known, for: key) }
        return known
    }

    private static let findStatement = Statement(
        "service_tokens_find",
        ["organizations", "ids"],
        """
        SELECT t.organization_id, t.id, t.secret_hash, t.source, t.last_used_at
        FROM unnest(:organizations::uuid[], :ids::uuid[]) AS k (organization_id, id)
        CROSS JOIN LATERAL (
            SELECT * FROM service_tokens x WHERE x.organization_id = k.organization_id AND x.id = k.id OFFSET 0
        ) t
        WHERE t.revoked_at IS NULL
        """
    )

    static let statements = [findStatement]
}

extension Administration {
    /// The maximum number of valid service tokens in an organization.
    package static let serviceTokenLimit = 100
    /// The maximum number of revoked tokens that lists still show. Tokens that were revoked earlier are deleted.
    static let revokedTokenLimit: Int64 = 100

    /// Returns an organization's service tokens, the newest first; nil if there is no such organization.
    ///
    /// The list includes revoked tokens.
    package func serviceTokens(of organization: UUID) async throws(Problem) -> [ServiceTokenRow]? {
        guard try await self.organization(organization) != nil else { return nil }
        return try await rows(Self.tokensStatement, Parameters(of: organization), "list service tokens") { row in
            try ServiceTokenRow(&row)
        }
    }

    /// Creates a service token for a source of events.
    ///
    /// - Returns: the token and its row; nil if there is no such organization. The token's secret is not stored.
    /// - Throws: `validation_failed` for an invalid source name, and if the organization has too many tokens.
    package func makeServiceToken(
        for source: String,
        of organization: UUID
    ) async throws(Problem) -> (token: ServiceToken, row: ServiceTokenRow)? {
        guard IngestSource.isValid(source) else {
            let detail = "source must match [a-z][a-z0-9_-]{0,63}"
            throw Problem(.validationFailed, pointer: "/source", rule: Rule.range, detail)
        }
        guard let known = try await serviceTokens(of: organization) else { return nil }
        guard known.filter({ $0.revokedAt == nil }).count < Self.serviceTokenLimit else {
            let detail = "the organization has \(Self.serviceTokenLimit) service tokens; revoke one first"
            throw Problem(.validationFailed, pointer: "", rule: Rule.range, detail)
        }
        let moment = now()
        let token = ServiceToken(organization: organization, id: UUIDv7Generator().make(at: moment))
        let parameters = Parameters(
            of: organization,
            token.id,
            source,
            PostgresBytes(token.secretHash),
            moment
        )
        let rows = try await rows(Self.makeTokenStatement, parameters, "make a service token") { row in
            try ServiceTokenRow(&row)
        }
        _ = try await run(
            Self.forgetTokensStatement,
            Parameters(of: organization, Self.revokedTokenLimit),
            "delete old service tokens"
        )
        catalog.invalidate(organization)
        return rows.first.map { (token, $0) }
    }

    /// Revokes a service token. This gateway refuses the token immediately, other gateways refuse it within five
    /// seconds.
    ///
    /// - Returns: the token's row; nil if there is no such token.
    package func revokeServiceToken(_ id: UUID, of organization: UUID) async throws(Problem) -> ServiceTokenRow? {
        let parameters = Parameters(of: organization, id, now())
        let rows = try await rows(Self.revokeTokenStatement, parameters, "revoke a service token") { row in
            try ServiceTokenRow(&row)
        }
        store.serviceTokens.invalidate(id, of: organization)
        catalog.invalidate(organization)
        return rows.first
    }

    static let tokensStatement = Statement(
        "admin_service_tokens",
        ["organization"],
        """
        SELECT \(ServiceTokenRow.list) FROM service_tokens t
        WHERE t.organization_id = :organization
        ORDER BY t.id DESC
        """
    )

    /// Adds a token, and locks the organization's row. An organization that is being purged accepts no new rows.
    static let makeTokenStatement = Statement(
        "admin_make_service_token",
        ["organization", "id", "source", "secret_hash", "now"],
        """
        INSERT INTO service_tokens AS t (organization_id, id, source, secret_hash, created_at)
        SELECT :organization::uuid, :id::uuid, :source::text, :secret_hash::bytea, :now::timestamptz
        WHERE (SELECT o.status FROM organizations o WHERE o.id = :organization FOR SHARE) <> 'purging'
        RETURNING \(ServiceTokenRow.list)
        """
    )

    static let revokeTokenStatement = Statement(
        "admin_revoke_service_token",
        ["organization", "id", "now"],
        """
        UPDATE service_tokens AS t SET revoked_at = coalesce(t.revoked_at, :now)
        WHERE t.organization_id = :organization AND t.id = :id
        RETURNING \(ServiceTokenRow.list)
        """
    )

    static let forgetTokensStatement = Statement(
        "admin_forget_service_tokens",
        ["organization", "limit"],
        """
        DELETE FROM service_tokens WHERE organization_id = :organization AND id IN (
            SELECT x.id FROM service_tokens x
            WHERE x.organization_id = :organization AND x.revoked_at IS NOT NULL
            ORDER BY x.revoked_at DESC
            OFFSET :limit)
        """
    )

    static let tokenStatements = [
        tokensStatement, makeTokenStatement, revokeTokenStatement, forgetTokensStatement,
    ]
}

/// A service token without its secret, as operators see it.
package struct ServiceTokenRow: Sendable, Hashable {
    package let id: UUID
    @Exact package private(set) var source: String
    package let createdAt: Timestamp
    /// The time of the last use, with a precision of a minute; nil if the token was never used.
    package let lastUsedAt: Timestamp?
    package let revokedAt: Timestamp?

    package static let list = "t.id, t.source, t.created_at, t.last_used_at, t.revoked_at"

    package init(_ row: inout RowReader) throws {
        id = try row.read("id")
        source = try row.read("source")
        createdAt = try row.read("created_at")
        lastUsedAt = try row.read("last_used_at")
        revokedAt = try row.read("revoked_at")
    }
}
