import Synchronization

/// One session on the server, driven by a separate thread or by the threads of its callers.
///
/// Calls from several tasks run in sequence, in the order in which they were made. If the task that awaits a call is
/// cancelled, or the call's deadline passes, the client requests the server to cancel the statement. After the server
/// has ended the statement, its remaining results are discarded, and the connection remains usable. If the server does
/// not react within a second, the connection is closed.
///
/// The session's thread ends after `close()`, when the last reference is released, or when the connection is lost.
public final class Connection: Sendable {
    /// The default limit of a call is `statementTimeout` plus this margin, so that the server's time-out normally
    /// occurs first.
    public static let timeoutMargin: Duration = .seconds(1)

    private let mailbox: Mailbox
    /// The driver that runs on the threads of callers; nil if a separate thread drives the session.
    private let driver: DriverInPlace?
    private let defaultTimeout: Duration?
    private let statements = Atomic(0)
    private let roundTrips = Atomic(0)
    private let commitCount = Atomic(0)

    private init(mailbox: Mailbox, driver: DriverInPlace? = nil, statementTimeout: Duration) {
        self.mailbox = mailbox
        self.driver = driver
        defaultTimeout = statementTimeout > .zero ? statementTimeout + Self.timeoutMargin : nil
    }

    deinit { mailbox.close() }

    /// Connects, authenticates and applies the settings.
    ///
    /// Throws `unavailable` if no connection can be made, `server` if the server refuses a setting, and `cancelled` if
    /// the task is cancelled.
    public static func open(_ configuration: ConnectionConfiguration) async throws(PostgresError) -> Connection {
        guard let mailbox = Mailbox() else { throw PostgresError(.unavailable, "no file descriptor left") }
        let connection = Connection(mailbox: mailbox, statementTimeout: configuration.statementTimeout)
        let failure = await withTaskCancellationHandler {
            await withCheckedContinuation { (continuation: CheckedContinuation<PostgresError?, Never>) in
                let started = DedicatedThread.start("pg-connection") {
                    ConnectionDriver.run(configuration, mailbox) { continuation.resume(returning: $0) }
                }
                if !started {
                    let error = PostgresError(.unavailable, "no thread left")
                    mailbox.end(error)
                    continuation.resume(returning: error)
                }
            }
        } onCancel: {
            mailbox.close()
        }
        if let failure { throw Task.isCancelled ? PostgresError(.cancelled, "while connecting") : failure }
        return connection
    }

    /// Connects on the calling thread, for callers that run on their own thread.
    ///
    /// This call and all later calls block the thread until they are done, which avoids switches between threads. If
    /// the server closes the session, this is only detected by the next call.
    ///
    /// Throws the same errors as ``open(_:)``.
    public static func openInPlace(_ configuration: ConnectionConfiguration) throws(PostgresError) -> Connection {
        guard let mailbox = Mailbox() else { throw PostgresError(.unavailable, "no file descriptor left") }
        return Connection(
            mailbox: mailbox,
            driver: try DriverInPlace(configuration, mailbox),
            statementTimeout: configuration.statementTimeout
        )
    }

    /// Runs all queries in one pipeline with one Sync, and returns their results in order.
    ///
    /// Outside an explicit transaction, the queries are one implicit transaction. After a failure, the server skips the
    /// rest of the pipeline. The method then throws the first error, with the index of the failed statement.
    ///
    /// The default of `timeout` is the sum of the configuration's `statementTimeout` and `timeoutMargin`. In addition,
    /// the server's time-out applies to each statement.
    public func run(_ queries: [Query], timeout: Duration? = nil) async throws(PostgresError) -> [Rows] {
        if queries.isEmpty { return [] }
        statements.wrappingAdd(queries.count, ordering: .relaxed)
        roundTrips.wrappingAdd(1, ordering: .relaxed)
        let results = try await perform(.pipeline(queries), timeout: timeout ?? defaultTimeout).get()
        if queries.last?.statement.name == Query.commit.statement.name {
            commitCount.wrappingAdd(1, ordering: .relaxed)
        }
        return results
    }

    public func run(_ query: Query, timeout: Duration? = nil) async throws(PostgresError) -> Rows {
        guard let rows = try await run([query], timeout: timeout).first else {
            throw PostgresError(.decoding, "no result", statement: query.statement.name)
        }
        return rows
    }

    /// Runs a text of one or more statements without parameters, for migrations. The results are discarded.
    ///
    /// Without a `timeout`, only the server's time-outs apply. The script may set these time-outs. Outside an explicit
    /// transaction, the whole script is one implicit transaction. COPY to or from the client is refused and ends the
    /// connection.
    public func execute(script: String, timeout: Duration? = nil) async throws(PostgresError) {
        _ = try await perform(.script(script), timeout: timeout).get()
    }

    public func ping(timeout: Duration = .seconds(1)) async throws(PostgresError) {
        _ = try await perform(.pipeline([]), timeout: timeout).get()
    }

    /// The total work of all calls of `run`, including failed calls.
    public var traffic: Traffic {
        var traffic = Traffic()
        traffic.statements = statements.load(ordering: .relaxed)
        traffic.roundTrips = roundTrips.load(ordering: .relaxed)
        return traffic
    }

    /// The number of calls of `run` that ended with a successful COMMIT.
    public var commits: Int { commitCount.load(ordering: .relaxed) }

    /// Whether the server has reported that it cannot write.
    ///
    /// False if the configuration does not require writes.
    public var isReadOnly: Bool { mailbox.isReadOnly }

    /// Whether calls can still succeed. False as soon as the server closes the connection, even while the connection is
    /// idle.
    public var isUsable: Bool { mailbox.isUsable }

    /// The process number that the server announced at the start of the session.
    ///
    /// A pooler announces a number that it has chosen itself.
    var announcedProcess: Int32 { mailbox.serverProcess }

    /// Whether the last call left a transaction open. A failed transaction is open until it is rolled back.
    public var isInTransaction: Bool { mailbox.transaction == .open }

    /// Whether a working connection should be replaced, because its buffers are large or its prepared statements no
    /// longer match the schema.
    var needsReplacement: Bool { mailbox.needsReplacement }

    /// Ends the session and its thread, without waiting for the end.
    ///
    /// A call in progress throws `connectionLost`.
    public func close() {
        mailbox.close()
        driver?.close()
    }

    /// Ends the session, and returns after its thread has ended and its descriptors are closed.
    public func closeAndWait() async {
        mailbox.close()
        await mailbox.waitForEnd()
    }

    /// Rolls back an open transaction, even in a cancelled task. If the rollback fails, the connection is closed.
    func rollback() async {
        guard isInTransaction, isUsable else { return }
        let outcome = await perform(.pipeline([.rollback]), timeout: .seconds(1), heedsCancellation: false)
        if case .failure = outcome { close() }
    }

    private func perform(_ work: Job.Work, timeout: Duration?, heedsCancellation: Bool = true) async -> Job.Outcome {
        let ticket = CancellationToken()
        let limits = Limits(deadline: timeout.map { ContinuousClock.now + $0 }, ticket: ticket)
        return await withTaskCancellationHandler {
            if let driver { return driver.perform(work, limits) }
            return await withCheckedContinuation { continuation in
                let job = Job(work: work, limits: limits, continuation: continuation)
                if !mailbox.post(job) { continuation.resume(returning: .failure(mailbox.refusal)) }
            }
        } onCancel: {
            guard heedsCancellation else { return }
            ticket.cancel()
            mailbox.wake()
        }
    }
}

/// The amount of work on a connection.
public struct Traffic: Sendable, Equatable {
    /// Statements, including `BEGIN` and `COMMIT`.
    ///
    /// The preparation of a statement at its first use does not count.
    public var statements = 0
    /// The number of pipelines. Each is sent completely before its results are awaited.
    public var roundTrips = 0

    public init() {}

    public static func + (one: Self, other: Self) -> Self {
        var sum = one
        sum.statements += other.statements
        sum.roundTrips += other.roundTrips
        return sum
    }

    public static func - (one: Self, other: Self) -> Self {
        var difference = one
        difference.statements -= other.statements
        difference.roundTrips -= other.roundTrips
        return difference
    }
}
