import Postgres
import Synchronization

/// A committer's own connection: opened at first use and again after it broke, not more often than four times a second.
final class CommitterConnection: Sendable {
    private struct State {
        var connection: Connection?
        var lastFailure: (at: ContinuousClock.Instant, error: PostgresError)?
    }

    private let configuration: ConnectionConfiguration
    private let state = Mutex(State())

    init(_ configuration: ConnectionConfiguration) {
        self.configuration = configuration
    }

    /// The open connection.
    ///
    /// - Throws: why there is none; within a quarter of a second of a failed try, that failure again.
    func open() async throws(PostgresError) -> Connection {
        let (open, failure) = state.withLock { ($0.connection, $0.lastFailure) }
        if let open, open.isUsable { return open }
        if let failure, .now - failure.at < .milliseconds(250) { throw failure.error }
        do throws(PostgresError) {
            let connection = try await Connection.open(configuration)
            state.withLock { $0.connection = connection }
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
