package import Foundation
import Postgres
package import SyncModel
package import SyncStore
import Synchronization

/// Validates service tokens, with a cache.
///
/// A cached token is at most five seconds old, so that a revoked one is refused within this time.
package final class ServiceTokens: Sendable {
    /// Maximum number of cached tokens, including unknown ones.
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
        /// Nil: there is no such token, or it was revoked.
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
                    let key = Key(organization: try row.uuid("organization_id"), id: try row.uuid("id"))
                    found[key] = Found(
                        hash: try row.bytes("secret_hash"),
                        source: try row.string("source"),
                        lastUsedAt: try row.optionalMoment("last_used_at")
                    )
                }
            }
            return found
        }
        self.now = now
        self.failure = failure
    }

    /// Forgets a token: it was revoked here.
    package func invalidate(_ id: UUID, of organization: UUID) {
        cache.withLock { $0.remove(Key(organization: organization, id: id)) }
    }

    /// Who shows a token; nil for one that is not good.
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
