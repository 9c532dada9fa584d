package import Postgres
import Synchronization

/// A committer's own connection: opened at first use and again after it broke, at most four times a second.
package final class CommitterConnection: Sendable {
    private struct State {
        var connection: Connection?
        /// Of the connections before it.
        var pastTraffic = Traffic()
        /// How long a statement may take on it now.
        var limit: Duration
        var lastFailure: (at: ContinuousClock.Instant, error: PostgresError)?
    }

    private let configuration: ConnectionConfiguration
    private let isInPlace: Bool
    private let state: Mutex<State>

    /// - Parameter isInPlace: whether the committer's thread drives it, which then is the committer's own.
    package init(_ configuration: ConnectionConfiguration, isInPlace: Bool = false) {
        self.configuration = configuration
        self.isInPlace = isInPlace
        state = Mutex(State(limit: configuration.statementTimeout))
    }

    /// How long a statement usually may take.
    var statementTimeout: Duration { configuration.statementTimeout }

    /// What was sent so far, on this connection and those before it.
    var traffic: Traffic {
        state.withLock { $0.pastTraffic + ($0.connection?.traffic ?? Traffic()) }
    }

    /// The open connection.
    ///
    /// - Parameter share: the divisor of a statement's usual time: 1 for all of it, 2 for a half.
    /// - Throws: why connecting failed; within a quarter of a second of a failed try, that failure again.
    func open(share: Int = 1) async throws(PostgresError) -> Connection {
        let connection = try await open()
        let limit = configuration.statementTimeout / share
        guard state.withLock({ $0.limit }) != limit else { return connection }
        let parameters = Parameters(
            "\(limit.components.seconds * 1_000 + limit.components.attoseconds / 1_000_000_000_000_000)ms"
        )
        _ = try await connection.run(Query(Self.limitStatement, parameters))
        state.withLock { $0.limit = limit }
        return connection
    }

    package static let limitStatement = Statement(
        "commit_limit",
        "SELECT set_config('statement_timeout', $1, false)"
    )

    private func open() async throws(PostgresError) -> Connection {
        let (open, failure) = state.withLock { ($0.connection, $0.lastFailure) }
        if let open, open.isUsable { return open }
        if let failure, .now - failure.at < .milliseconds(250) { throw failure.error }
        do throws(PostgresError) {
            let connection =
                if isInPlace {
                    try Connection.openInPlace(configuration)
                } else {
                    try await Connection.open(configuration)
                }
            state.withLock { state in
                state.pastTraffic = state.pastTraffic + (state.connection?.traffic ?? Traffic())
                state.connection = connection
                state.limit = configuration.statementTimeout
            }
            return connection
        } catch {
            state.withLock { $0.lastFailure = (.now, error) }
            throw error
        }
    }

    func close() {
        state.withLock { $0.connection }?.close()
    }
}
