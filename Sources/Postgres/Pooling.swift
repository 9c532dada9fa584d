/// The pooler between this process and the server, if it can be detected.
public enum Pooling: Sendable, Equatable {
    /// No pooler is visible. A proxy that reports the server's own process number cannot be detected.
    case none
    /// A pooler that assigns a server session to a client until the client disconnects.
    case session
    /// A pooler that may assign the session to another client after each transaction or statement.
    ///
    /// Prepared statements, settings and LISTEN belong to a session. With such a pooler, they are lost, or they affect
    /// other clients.
    case shared
}

extension Pooling {
    private static let attempts = 4
    private static let process = Query(Statement("", "SELECT pg_backend_pid()"))

    /// Detects a pooler. The method opens connections for this purpose, which leave nothing in a session.
    ///
    /// A pooler is detected if the announced process number differs from the number of the server's process. The pooler
    /// shares sessions if one client gets different sessions, or if two clients get the same session. Two clients can
    /// get the same session, because a pooler first assigns the session that was returned last. Throws the same errors
    /// as `Connection.open`.
    public static func check(at uri: String, connectTimeout: Duration = .seconds(3)) async throws(PostgresError)
        -> Pooling
    {
        var configuration = ConnectionConfiguration(uri: uri, connectTimeout: connectTimeout)
        configuration.ownsSession = false
        let first = try await Connection.open(configuration)
        do throws(PostgresError) {
            let pooling = try await check(through: first, configuration)
            await first.closeAndWait()
            return pooling
        } catch {
            await first.closeAndWait()
            throw error
        }
    }

    private static func check(
        through first: Connection,
        _ configuration: ConnectionConfiguration
    ) async throws(PostgresError) -> Pooling {
        let own = try await process(of: first)
        if own == first.announcedProcess { return .none }
        for _ in 1..<attempts where try await process(of: first) != own { return .shared }
        guard let second = try? await Connection.open(configuration) else { return .session }
        // if the first client keeps its session and the pool has no other session, the second client waits
        let other = try? await process(of: second)
        var isShared = other == own
        for _ in 1..<attempts where !isShared && other != nil {
            let (again, otherAgain) = (try? await process(of: first), try? await process(of: second))
            isShared = again.map { $0 != own } ?? false || otherAgain.map { $0 != other } ?? false
        }
        await second.closeAndWait()
        return isShared ? .shared : .session
    }

    private static func process(of connection: Connection) async throws(PostgresError) -> Int32 {
        let rows = try await connection.run(process, timeout: .seconds(3))
        return try rows.read(0, 0)
    }
}

/// Pauses that double up to a limit, with jitter.
///
/// The jitter prevents callers who failed together from retrying together.
struct Backoff: Sendable {
    let first: Duration
    let longest: Duration

    /// The wait after this many consecutive failures (at least 1).
    ///
    /// The wait is between half of the doubled pause (`jitter` is 0) and the whole doubled pause (`jitter` is 1).
    func delay(afterFailures failures: Int, jitter: Double) -> Duration {
        let doublings = min(max(failures - 1, 0), 16)
        let full = min(longest, first * (1 << doublings))
        return full * (0.5 + 0.5 * jitter)
    }
}
