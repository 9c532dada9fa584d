package import Postgres
import Synchronization

/// The connection of one committer.
///
/// The connection is opened at its first use. After a loss it is opened again, with at most four attempts a second. If
/// the rows of groups are on several servers, there is one connection to each server.
package final class CommitterConnection: Sendable {
    /// The connection to a server, with the state of this connection.
    private struct Line {
        var connection: Connection?
        /// The present time-out of statements on the connection.
        var limit: Duration
        var lastFailure: (at: ContinuousClock.Instant, error: PostgresError)?
    }

    private struct State {
        /// The connections, by server. The key nil is the configured server.
        var lines: [ServerAddress?: Line] = [:]
        /// The server that has the rows of the current group.
        var server: ServerAddress?
        /// The total traffic of earlier connections, which are closed.
        var pastTraffic = Traffic()
    }

    /// The time for which the committer does not try again to connect directly to a server, after a direct connection
    /// has failed.
    ///
    /// During this time, the committer writes the rows through the configured server.
    private static let fallback: Duration = .seconds(10)

    private let configuration: ConnectionConfiguration
    private let isInPlace: Bool
    private let onFallback: (@Sendable (ServerAddress, PostgresError) -> Void)?
    private let state = Mutex(State())

    /// - Parameters:
    ///   - isInPlace: whether the committer's thread drives the connection. If so, no other code may run on this
    ///     thread.
    ///   - onFallback: called in the same cases as ``ShardRouting/onFallback``.
    package init(
        _ configuration: ConnectionConfiguration,
        isInPlace: Bool = false,
        onFallback: (@Sendable (ServerAddress, PostgresError) -> Void)? = nil
    ) {
        self.configuration = configuration
        self.isInPlace = isInPlace
        self.onFallback = onFallback
    }

    /// Sets the server that has the rows of the next group; nil for the configured server.
    func selectServer(_ server: ServerAddress?) { state.withLock { $0.server = server } }

    /// Whether ``selectServer(_:)`` has set a server. If not, all groups are written through the configured server.
    var hasSelectedServer: Bool { state.withLock { $0.server != nil } }

    /// The usual time limit of a statement.
    var statementTimeout: Duration { configuration.statementTimeout }

    /// The traffic so far, on open and earlier connections.
    var traffic: Traffic {
        state.withLock { state in
            state.lines.values.reduce(state.pastTraffic) { $0 + ($1.connection?.traffic ?? Traffic()) }
        }
    }

    /// Returns the open connection, or opens one.
    ///
    /// - Parameter timeoutDivisor: the divisor of a statement's usual time limit: 1 for the usual limit, 2 for half of
    ///   the limit.
    /// - Throws: the error of the failed attempt to connect. During the next quarter of a second, the method throws the
    ///   same error without another attempt.
    func open(timeoutDivisor: Int = 1) async throws(PostgresError) -> Connection {
        let (connection, server) = try await nearest()
        let limit = configuration.statementTimeout / timeoutDivisor
        guard state.withLock({ $0.lines[server]?.limit }) != limit else { return connection }
        _ = try await connection.run(
            Self.limitStatement(
                milliseconds:
                    "\(limit.components.seconds * 1_000 + limit.components.attoseconds / 1_000_000_000_000_000)ms"
            )
        )
        state.withLock { $0.lines[server]?.limit = limit }
        return connection
    }

    package static let limitStatement = Statement(
        "commit_limit",
        ["milliseconds"],
        "SELECT set_config('statement_timeout', :milliseconds, false)"
    )

    /// Connects to the server that has the group's rows.
    ///
    /// If that server cannot be reached directly, the configured server is used.
    private func nearest() async throws(PostgresError) -> (Connection, ServerAddress?) {
        if let server = state.withLock({ $0.server }) {
            let failure = state.withLock { $0.lines[server]?.lastFailure }
            if failure.map({ .now - $0.at >= Self.fallback }) ?? true {
                do throws(PostgresError) {
                    return (try await open(server), server)
                } catch {
                    if failure == nil { onFallback?(server, error) }
                }
            }
        }
        return (try await open(nil), nil)
    }

    private func open(_ server: ServerAddress?) async throws(PostgresError) -> Connection {
        let (open, failure) = state.withLock { ($0.lines[server]?.connection, $0.lines[server]?.lastFailure) }
        if let open, open.isUsable { return open }
        if let failure, .now - failure.at < .milliseconds(250) { throw failure.error }
        var configuration = configuration
        configuration.server = server
        // a name that distinguishes these sessions from the gateway's sessions on the configured server
        if server != nil { configuration.applicationName += " direct" }
        do throws(PostgresError) {
            let connection =
                if isInPlace {
                    try Connection.openInPlace(configuration)
                } else {
                    try await Connection.open(configuration)
                }
            state.withLock { state in
                // if the server has restarted, its old connection is of no use
                for (old, line) in state.lines where old?.host == server?.host && old?.port == server?.port {
                    state.pastTraffic = state.pastTraffic + (line.connection?.traffic ?? Traffic())
                    line.connection?.close()
                    state.lines[old] = nil
                }
                state.lines[server] = Line(connection: connection, limit: configuration.statementTimeout)
            }
            return connection
        } catch {
            state.withLock { state in
                state.pastTraffic = state.pastTraffic + (state.lines[server]?.connection?.traffic ?? Traffic())
                state.lines[server] = Line(limit: configuration.statementTimeout, lastFailure: (.now, error))
            }
            throw error
        }
    }

    func close() {
        for line in state.withLock({ Array($0.lines.values) }) { line.connection?.close() }
    }
}

/// The routing of groups whose rows are on one of several servers.
///
/// A group is sent directly to the server that has the group's rows, so that no other server has to forward the
/// statements.
package struct ShardRouting: Sendable {
    /// Returns the server that has a shard's rows; nil if the server is unknown.
    let server: @Sendable (Int) -> ServerAddress?
    /// Called when a server cannot be reached directly, unless the previous attempt at this server had failed as well.
    let onFallback: @Sendable (ServerAddress, PostgresError) -> Void

    package init(
        to server: @escaping @Sendable (Int) -> ServerAddress?,
        onFallback: @escaping @Sendable (ServerAddress, PostgresError) -> Void
    ) {
        self.server = server
        self.onFallback = onFallback
    }
}
