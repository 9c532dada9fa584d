import Synchronization

/// A bounded number of connections to one database, each of which is lent to one caller at a time.
///
/// Connections are opened when needed, and broken connections are replaced. A connection that was idle for 30 seconds
/// is tested before it is lent. A connection with an open transaction is never lent.
///
/// While the server cannot be reached, the pool makes one attempt to connect at a time, with back-off. During a short
/// outage callers wait. During a long outage they are refused immediately.
public final class Pool: Sendable {
    typealias State = PoolState<Connection, CheckedContinuation<Lease, Never>>

    /// The result for a caller: an error, or a connection with the time at which it became idle.
    typealias Lease = Result<(connection: Connection, idleSince: ContinuousClock.Instant?), PostgresError>

    struct Shell: Sendable {
        var state: State
        var timerAt: ContinuousClock.Instant?
        var lastID: UInt64 = 0
        /// The running attempts to connect. The value is nil until the task of the attempt is created.
        var attempts: [UInt64: Task<Void, Never>?] = [:]
        var closers: [CheckedContinuation<Void, Never>] = []
    }

    private static let idleCheck: Duration = .seconds(30)

    let configuration: ConnectionConfiguration
    let shell: Mutex<Shell>

    /// Creates a pool of at most `maximum` connections. A `maximum` below 1 is treated as 1.
    ///
    /// Callers wait for a connection in order of arrival, for at most `acquireTimeout`. If `maximumWaiters` callers
    /// wait, further callers are refused immediately.
    public init(
        configuration: ConnectionConfiguration,
        maximum: Int = 8,
        acquireTimeout: Duration = .seconds(3),
        maximumWaiters: Int = 4096
    ) {
        self.configuration = configuration
        let limits = State.Limits(
            maximum: max(1, maximum),
            maximumWaiters: max(1, maximumWaiters),
            acquireTimeout: acquireTimeout,
            backoff: Backoff(first: .milliseconds(50), longest: .seconds(2))
        )
        shell = Mutex(Shell(state: State(limits)))
    }

    public var statistics: Statistics { shell.withLock { $0.state.statistics } }

    /// Lends a connection while `body` runs.
    ///
    /// If a transaction is left open, it is rolled back.
    ///
    /// Throws the error of `body`, `poolExhausted`, `cancelled`, or the error of a failed attempt to connect.
    nonisolated(nonsending) public func withConnection<T: Sendable>(
        _ body: nonisolated(nonsending) (Connection) async throws -> T
    ) async throws -> T {
        let connection = try await checkOut()
        do {
            let value = try await body(connection)
            await release(connection)
            return value
        } catch {
            await release(connection)
            throw error
        }
    }

    /// Runs the queries in one pipeline on one connection, as one implicit transaction.
    public func run(_ queries: [Query]) async throws -> [Rows] {
        try await withConnection { try await $0.run(queries) }
    }

    /// Refuses new and waiting callers, and waits until the lent connections are returned. Returns after all
    /// connections are closed and their threads have ended.
    public func close() async {
        apply { state, _ in state.close() }
        let attempts = shell.withLock { Array($0.attempts.values) }
        for attempt in attempts { attempt?.cancel() }
        await withCheckedContinuation { continuation in
            let isDrained = shell.withLock { shell in
                if !shell.state.isDrained { shell.closers.append(continuation) }
                return shell.state.isDrained
            }
            if isDrained { continuation.resume() }
        }
    }
}

extension Pool {
    /// Returns a connection, which is tested first if it was idle for long.
    private func checkOut() async throws(PostgresError) -> Connection {
        while true {
            let (connection, idleSince) = try await acquire().get()
            if connection.isUsable {
                guard let idleSince, ContinuousClock.now - idleSince > Self.idleCheck else { return connection }
                do throws(PostgresError) {
                    try await connection.ping()
                    return connection
                } catch  where error.kind == .cancelled {
                    await release(connection)
                    throw error
                } catch {
                    // The next connection may still work.
                }
            }
            await discard(connection)
        }
    }

    private func acquire() async -> Lease {
        let id = shell.withLock { shell in
            shell.lastID += 1
            return shell.lastID
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                apply { state, now in state.acquire(id, continuation, at: now) }
                // The task may have been cancelled before the caller was in the queue.
                if Task.isCancelled { apply { state, _ in state.cancel(id) } }
            }
        } onCancel: {
            apply { state, _ in state.cancel(id) }
        }
    }

    private func release(_ connection: Connection) async {
        if connection.isInTransaction { await connection.rollback() }
        if connection.isUsable, !connection.needsReplacement, !connection.isInTransaction {
            apply { state, now in state.release(connection, at: now) }
        } else {
            await discard(connection)
        }
    }

    func discard(_ connection: Connection) async {
        await connection.closeAndWait()
        apply { state, now in state.release(nil, at: now) }
    }
}

extension Pool {
    private static let retryBackoff = Backoff(first: .milliseconds(5), longest: .milliseconds(250))

    /// Runs `body` between BEGIN and COMMIT on one connection.
    ///
    /// If `body` throws, the transaction is rolled back.
    ///
    /// After a serialization failure, a deadlock or a lock time-out, `body` runs again after a random pause, up to
    /// `attempts` times in total (at least once). So `body` must have no effects outside the transaction. Throws the
    /// error of the last attempt. After `connectionLost`, the COMMIT may have taken effect.
    nonisolated(nonsending) public func transaction<T: Sendable>(
        attempts: Int = 5,
        _ body: nonisolated(nonsending) (Connection) async throws -> T
    ) async throws -> T {
        let retry = Retry(attempts) { Self.retryBackoff.delay(afterFailures: $0, jitter: .random(in: 0...1)) }
        return try await retry.run { error, _ in
            !Task.isCancelled && (error as? PostgresError)?.isRetryable ?? false
        } _: {
            return try await withConnection { connection in
                _ = try await connection.run(.begin)
                let value = try await body(connection)
                _ = try await connection.run(.commit)
                return value
            }
        }
    }
}

extension Pool {
    /// Applies an event to the state, and performs its effects.
    func apply(_ event: (inout State, ContinuousClock.Instant) -> State.Effects) {
        let now = ContinuousClock.now
        let (effects, timer, closers) = shell.withLock { shell in
            let effects = event(&shell.state, now)
            var timer: ContinuousClock.Instant?
            if let next = shell.state.nextTick(after: now), shell.timerAt.map({ next < $0 }) ?? true {
                shell.timerAt = next
                timer = next
            }
            guard shell.state.isDrained else { return (effects, timer, [] as [CheckedContinuation<Void, Never>]) }
            defer { shell.closers = [] }
            return (effects, timer, shell.closers)
        }
        for (waiter, answer) in effects.answers {
            switch answer {
            case .lend(let connection, let idleSince): waiter.resume(returning: .success((connection, idleSince)))
            case .refuse(let error): waiter.resume(returning: .failure(error))
            }
        }
        for _ in 0..<effects.connects { startConnecting() }
        for connection in effects.discards {
            Task { await discard(connection) }
        }
        if let timer {
            Task { [weak self] in
                try? await Task.sleep(until: timer, clock: .continuous)
                self?.timerFired(timer)
            }
        }
        for closer in closers { closer.resume() }
    }

    private func timerFired(_ at: ContinuousClock.Instant) {
        let isCurrent = shell.withLock { shell in
            guard shell.timerAt == at else { return false }
            shell.timerAt = nil
            return true
        }
        if isCurrent { apply { state, now in state.tick(at: now) } }
    }

    private func startConnecting() {
        let id = shell.withLock { shell in
            shell.lastID += 1
            shell.attempts[shell.lastID] = .some(nil)
            return shell.lastID
        }
        let attempt = Task { await connect(attempt: id) }
        let isClosed = shell.withLock { shell in
            if shell.attempts.keys.contains(id) { shell.attempts[id] = attempt }
            return shell.state.isClosed
        }
        if isClosed { attempt.cancel() }
    }

    private func connect(attempt id: UInt64) async {
        let outcome: Result<Connection, PostgresError>
        do throws(PostgresError) {
            outcome = .success(try await Connection.open(configuration))
        } catch {
            outcome = .failure(error)
        }
        shell.withLock { _ = $0.attempts.removeValue(forKey: id) }
        apply { state, now in
            switch outcome {
            case .success(let connection): state.connected(connection, at: now)
            case .failure(let error): state.connectFailed(error, at: now, jitter: .random(in: 0...1))
            }
        }
    }
}

extension Pool {
    public struct Statistics: Sendable, Equatable {
        /// The number of open connections, lent or idle.
        public let open: Int
        /// The number of idle connections.
        public let idle: Int
        public let connecting: Int
        public let waiting: Int
        /// The number of connections made since the pool's creation.
        public let created: Int
        /// The maximum number of connections.
        public let maximum: Int
        /// The number of callers that were refused since the pool's creation.
        ///
        /// A caller is refused if all connections stay in use, or if too many callers already wait.
        public let exhausted: Int
        /// The total time that callers have waited for a connection.
        public let waited: Duration
    }
}
