package import FoundationEssentials
import Postgres
package import SyncModel
import Synchronization

/// Console sessions that operators ended by signing out.
///
/// All gateways of the database share this list.
///
/// A session is a signed text that every gateway accepts until it expires. A sign-out stores a hash of the text. A
/// gateway refuses the session immediately if it handled the sign-out itself, and otherwise within ``refreshSeconds``.
package final class EndedSessions: Sendable {
    /// The time for which a gateway uses the list that it read last, in seconds.
    static let refreshSeconds: Int64 = 5
    /// The maximum number of sessions in memory. The sessions that expire last are kept.
    static let maximumSessions = 10_000

    private struct State {
        var ended: [Data: Timestamp] = [:]
        var readAt: Timestamp?
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

    /// Ends a session for all gateways. Ending it again changes nothing.
    ///
    /// - Parameters:
    ///   - digest: SHA-256 of the cookie's value.
    ///   - end: the time at which the session expires.
    /// - Throws: `store_unavailable` or `overloaded` if the sign-out could not be stored. A copy of the cookie may then
    ///   still be accepted.
    package func end(_ digest: Data, until end: Timestamp) async throws(Problem) {
        do {
            _ = try await pool.run([
                Self.endStatement(digest: PostgresBytes(Array(digest)), ends_at: end),
                Self.expireStatement(now: now()),
            ])
        } catch {
            throw failure.problem(error, doing: "end a console session")
        }
        state.withLock { $0.ended[digest] = end }
    }

    /// Returns whether a session has been ended.
    ///
    /// If the database cannot be read, the last read list is used, so that the console works during an outage.
    package func contains(_ digest: Data) async -> Bool {
        let moment = now()
        let isFresh = state.withLock { state in
            guard let readAt = state.readAt, readAt <= moment else { return false }
            return moment.seconds - readAt.seconds < Self.refreshSeconds
        }
        if !isFresh { await refresh(at: moment) }
        return state.withLock { $0.ended[digest] != nil }
    }

    private func refresh(at moment: Timestamp) async {
        // if requests are concurrent, only the first reads the list, and the others use the present list
        let isFirst = state.withLock { state in
            let isFirst = state.readAt.map { $0 > moment || moment.seconds - $0.seconds >= Self.refreshSeconds } ?? true
            if isFirst { state.readAt = moment }
            return isFirst
        }
        guard isFirst else { return }
        do {
            let query = Self.readStatement(now: moment, limit: Self.maximumSessions)
            var ended: [Data: Timestamp] = [:]
            for var row in try await pool.run([query])[0] {
                ended[Data(try row.read("digest", as: [UInt8].self))] = try row.read("ends_at", as: Timestamp.self)
            }
            state.withLock { state in
                // sessions that were ended while the list was read must remain
                for (digest, end) in state.ended where end > moment { ended[digest] = end }
                state.ended = ended
            }
        } catch {
            state.withLock { $0.readAt = nil }
            _ = failure.problem(error, doing: "read ended console sessions")
        }
    }

    static let endStatement = Statement(
        "sessions_end",
        ["digest", "ends_at"],
        "INSERT INTO ended_sessions AS s (digest, ends_at) VALUES (:digest, :ends_at) ON CONFLICT (digest) DO NOTHING"
    )

    /// Reads the ended sessions that have not expired at `now`, up to `limit`.
    static let readStatement = Statement(
        "sessions_ended",
        ["now", "limit"],
        "SELECT s.digest, s.ends_at FROM ended_sessions s WHERE s.ends_at > :now ORDER BY s.ends_at DESC LIMIT :limit"
    )

    static let expireStatement = Statement(
        "sessions_expire",
        ["now"],
        "DELETE FROM ended_sessions WHERE ends_at <= :now"
    )

    static let statements = [endStatement, readStatement, expireStatement]
}
