import Synchronization

/// A bounded number of connections to one database, lent to one caller at a time.
///
/// Connections are made when needed. Those that broke are replaced; one that has been idle for 30 seconds is asked for
/// a sign of life before it is lent. None is lent inside a transaction. While the server can't be reached, attempts
/// are made one at a time with back-off; callers wait out a short outage and are refused at once in a long one.
package final class Pool: Sendable {
    /// Counts for metrics.
    package struct Statistics: Sendable, Equatable {
        /// Connections that exist, lent or idle.
        package let open: Int
        /// Connections that nobody uses.
        package let idle: Int
        /// Connections being made.
        package let connecting: Int
        /// Callers in line.
        package let waiting: Int
        /// Connections made since the pool was.
        package let created: Int
        /// Connections there may be.
        package let maximum: Int
        /// Callers refused since the pool was made: all connections stayed in use, or too many waited already.
        package let exhausted: Int
        /// How long callers have waited in line, all together.
        package let waited: Duration
    }

    private typealias State = PoolState<Connection, CheckedContinuation<Loan, Never>>

    /// What a caller gets: a connection, idle since a time, or an error.
    private typealias Loan = Result<(connection: Connection, idleSince: ContinuousClock.Instant?), PostgresError>

    private struct Shell: Sendable {
        var state: State
        var timerAt: ContinuousClock.Instant?
        var lastID: UInt64 = 0
        /// Connections being made; without a task for the moment until it is known.
        var attempts: [UInt64: Task<Void, Never>?] = [:]
        var closers: [CheckedContinuation<Void, Never>] = []
    }

    private static let idleCheck: Duration = .seconds(30)

    private let configuration: ConnectionConfiguration
    private let shell: Mutex<Shell>

    /// A pool of at most `maximum` connections (at least 1). A caller waits for one for at most `acquireTimeout`, in
    /// order of arrival; beyond `maximumWaiters` callers are refused at once.
    package init(
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

    /// Counts for metrics.
    package var statistics: Statistics { shell.withLock { $0.state.statistics } }

    /// Lends a connection for the time of `body`; a transaction left open is rolled back.
    ///
    /// Throws what `body` throws, `poolExhausted`, `cancelled`, or the error that connecting met.
    nonisolated(nonsending) package func withConnection<T: Sendable>(
        _ body: nonisolated(nonsending) (Connection) async throws -> T
    ) async throws -> T {
        let connection = try await checkOut()
        do {
            let value = try await body(connection)
            await giveBack(connection)
            return value
        } catch {
            await giveBack(connection)
            throw error
        }
    }

    /// Runs the queries in one pipeline on one connection, as one implicit transaction.
    package func run(_ queries: [Query]) async throws -> [Rows] {
        try await withConnection { try await $0.run(queries) }
    }

    /// Refuses new callers and those in line, waits for lent connections to come back, and returns when all are closed
    /// and their threads done.
    package func close() async {
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
    /// A connection that works as far as one can know.
    private func checkOut() async throws(PostgresError) -> Connection {
        while true {
            let (connection, idleSince) = try await acquire().get()
            if connection.isUsable {
                guard let idleSince, ContinuousClock.now - idleSince > Self.idleCheck else { return connection }
                do throws(PostgresError) {
                    try await connection.ping()
                    return connection
                } catch  where error.kind == .cancelled {
                    await giveBack(connection)
                    throw error
                } catch {
                    // The next one may be alive.
                }
            }
            await discard(connection)
        }
    }

    private func acquire() async -> Loan {
        let id = shell.withLock { shell in
            shell.lastID += 1
            return shell.lastID
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                apply { state, now in state.acquire(id, continuation, at: now) }
                // The handler may have run before there was anything to cancel.
                if Task.isCancelled { apply { state, _ in state.cancel(id) } }
            }
        } onCancel: {
            apply { state, _ in state.cancel(id) }
        }
    }

    private func giveBack(_ connection: Connection) async {
        if connection.isInTransaction { await connection.rollback() }
        if connection.isUsable, !connection.isWorn, !connection.isInTransaction {
            apply { state, now in state.release(connection, at: now) }
        } else {
            await discard(connection)
        }
    }

    private func discard(_ connection: Connection) async {
        await connection.closeAndWait()
        apply { state, now in state.release(nil, at: now) }
    }

    /// Lets an event change the state, and carries out what follows from it.
    private func apply(_ event: (inout State, ContinuousClock.Instant) -> State.Effects) {
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
