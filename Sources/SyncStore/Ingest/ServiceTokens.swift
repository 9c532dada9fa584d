package import Foundation
import Postgres
package import SyncModel
import Synchronization

/// Whose service tokens are good. What is known of one is five seconds old at most, so that a revoked one is refused by
/// then.
package final class ServiceTokens: Sendable {
    /// Tokens that are remembered at most, those that are nobody's included.
    static let capacity = 20_000
    /// Look-ups of tokens that were not good lately, a second: who makes tokens up costs the database no more.
    static let strangersPerSecond = 200

    /// What sends events.
    package struct Bearer: Sendable, Hashable {
        package let organization: UUID
        package let tokenID: UUID
        package let source: String
        /// Whether it is time to note that the token is used.
        package let isUseNews: Bool

        package init(organization: UUID, tokenID: UUID, source: String, isUseNews: Bool) {
            self.organization = organization
            self.tokenID = tokenID
            self.source = source
            self.isUseNews = isUseNews
        }
    }

    private struct Key: Hashable {
        let organization: UUID
        let id: UUID
    }

    private struct Known {
        /// Nil: there is no such token, or it was revoked.
        let found: (hash: [UInt8], source: String, lastUsedAt: Timestamp?)?
        let readAt: Timestamp
    }

    private struct State {
        var tokens = GenerationCache<Key, Known>(capacity: capacity)
        var second: Int64 = 0
        var looks = 0
    }

    private let pool: Pool
    private let now: TimeSource
    private let failure: StoreFailure
    private let state = Mutex(State())

    init(pool: Pool, now: @escaping TimeSource, failure: StoreFailure) {
        self.pool = pool
        self.now = now
        self.failure = failure
    }

    /// Forgets a token: it was revoked here.
    package func invalidate(_ id: UUID, of organization: UUID) {
        state.withLock { $0.tokens.remove(Key(organization: organization, id: id)) }
    }

    /// Who shows a token; nil for one that is not good.
    ///
    /// - Throws: `store_unavailable`; `overloaded` where too many made-up tokens are shown.
    package func bearer(of token: ServiceToken) async throws(Problem) -> Bearer? {
        let moment = now()
        guard let found = try await known(token, at: moment).found, token.matches(found.hash) else { return nil }
        let isNews = found.lastUsedAt.map { $0.adding(seconds: 60) <= moment } ?? true
        return Bearer(organization: token.organization, tokenID: token.id, source: found.source, isUseNews: isNews)
    }

    private func known(_ token: ServiceToken, at moment: Timestamp) async throws(Problem) -> Known {
        let key = Key(organization: token.organization, id: token.id)
        let old = state.withLock { $0.tokens.find(key) }
        if let old, old.readAt <= moment, moment.microseconds - old.readAt.microseconds < Catalog.lifetime {
            return old
        }
        if old?.found == nil { try admitStranger(at: moment) }
        let rows: [Rows]
        let known: Known
        do {
            rows = try await pool.run([Query(Self.findStatement, Parameters(token.organization, token.id))])
            let found = try rows[0].read { row in
                (
                    hash: try row.bytes("secret_hash"), source: try row.string("source"),
                    lastUsedAt: try row.optionalMoment("last_used_at")
                )
            }.first
            known = Known(found: found, readAt: moment)
        } catch {
            throw failure.problem(error, doing: "look up a service token")
        }
        state.withLock { $0.tokens.insert(known, for: key) }
        return known
    }

    private func admitStranger(at moment: Timestamp) throws(Problem) {
        let isAdmitted = state.withLock { state in
            if state.second != moment.seconds { (state.second, state.looks) = (moment.seconds, 0) }
            state.looks += 1
            return state.looks <= Self.strangersPerSecond
        }
        if !isAdmitted { throw Problem.overloaded("too many unknown service tokens are shown") }
    }

    /// Only of an active organization: of others nothing is taken.
    private static let findStatement = Statement(
        "service_tokens_find",
        """
        SELECT t.secret_hash, t.source, t.last_used_at
        FROM service_tokens t
        WHERE t.organization_id = $1 AND t.id = $2 AND t.revoked_at IS NULL
        """
    )

    static let statements = [findStatement]
}
