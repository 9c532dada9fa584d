import Glibc

/// The work of a connection's thread: it connects, and takes jobs from the mailbox until the end. No other thread uses
/// this object.
final class ConnectionDriver {
    /// The text and the parameter types of a prepared statement. They are compared with each later statement of this
    /// name, to detect a different statement with the same name.
    struct Prepared {
        let sql: String
        let types: [UInt32]
    }

    let handle: LibPQConnection
    let mailbox: Mailbox
    var prepared: [String: Prepared] = [:]
    var pointers = ValuePointers()
    /// Whether the connection should be replaced, because of an effect of an earlier job.
    var needsReplacement = false
    /// Translates queries if the server is of the dialect's kind; nil for any other server.
    private(set) var translation: (@Sendable (Query) throws(PostgresError) -> Query)?
    /// The statements that guard the connection's transactions.
    private(set) var transactionGuard: Dialect.TransactionGuard?
    private let configuration: ConnectionConfiguration

    private init(_ configuration: ConnectionConfiguration, _ mailbox: Mailbox) throws(PostgresError) {
        self.configuration = configuration
        self.mailbox = mailbox
        handle = try LibPQConnection(connecting: configuration)
    }

    /// Connects, and applies the settings.
    static func open(
        _ configuration: ConnectionConfiguration,
        _ mailbox: Mailbox
    ) throws(PostgresError) -> ConnectionDriver {
        let driver = try ConnectionDriver(configuration, mailbox)
        try driver.connect()
        mailbox.connected(to: driver.handle.serverProcess)
        if configuration.ownsSession { try driver.applySettings() }
        return driver
    }

    /// Runs the thread until it ends. `opened` is called once, when the connection is ready or has failed.
    static func run(
        _ configuration: ConnectionConfiguration,
        _ mailbox: Mailbox,
        opened: (PostgresError?) -> Void
    ) {
        var isOpen = false
        // Because this is a separate function, libpq's resources are freed before the end is announced.
        func live() -> PostgresError {
            do throws(PostgresError) {
                let driver = try ConnectionDriver.open(configuration, mailbox)
                isOpen = true
                opened(nil)
                return driver.serve()
            } catch {
                return error
            }
        }
        let error = live()
        mailbox.end(error)
        if !isOpen { opened(error) }
    }

    private func connect() throws(PostgresError) {
        try handle.connect(within: configuration.connectTimeout) { events, deadline throws(PostgresError) in
            if mailbox.isClosing { throw PostgresError(.unavailable, "closed while connecting") }
            return wait(for: events, until: deadline)
        }
        guard handle.enterPipeline() else { throw PostgresError(.unavailable, handle.message) }
    }

    private func applySettings() throws(PostgresError) {
        let timeout = max(.zero, configuration.statementTimeout) / .milliseconds(1)
        let settings = [("statement_timeout", "\(Int(timeout))")] + configuration.settings
        guard let dialect = configuration.dialect else { return _ = try apply(settings) }
        let answer = try apply(settings, asking: [Query(dialect.detection)])
        let isSpoken = try answer[0].read(0, 0, as: Bool.self)
        if let server = configuration.server {
            guard isSpoken, try apply([], asking: [Query(dialect.identity)])[0].read(0, 0) == server.identity else {
                throw PostgresError(.unavailable, "a different server answers at \(server)")
            }
        }
        dialect.onAnswer(isSpoken)
        guard isSpoken else { return }
        _ = try apply(dialect.settings)
        translation = dialect.translation
        transactionGuard = dialect.transactionGuard
    }

    /// Sets the session's parameters, and detects the server's kind in the same round trip.
    private func apply(
        _ settings: [(String, String)],
        asking questions: [Query] = []
    ) throws(PostgresError) -> [Rows] {
        let statement = Statement("postgres_settings", "SELECT set_config($1, $2, false)")
        let queries = settings.map { Query(statement, Parameters($0.0, $0.1)) } + questions
        let deadline = ContinuousClock.now + configuration.connectTimeout
        let results = try pipeline(queries, Limits(deadline: deadline, ticket: CancellationToken())).outcome.get()
        return Array(results.suffix(questions.count))
    }

    /// Works until the connection is closed or lost, and returns the reason.
    private func serve() -> PostgresError {
        while !mailbox.isClosing {
            if let job = mailbox.next() {
                guard perform(job) else { break }
            } else {
                answerInterrupted()
                guard wait(for: POLLIN, until: nil) else { continue }
                let isAlive = handle.receive()
                deliverNotifications()
                if !isAlive || handle.hasFailed { return handle.loss }
            }
        }
        return PostgresError(.connectionLost, "the connection is closed")
    }

    /// Runs one job and sends its result to the caller. Returns false if the connection cannot continue.
    private func perform(_ job: Job) -> Bool {
        let (outcome, isAlive) = perform(job.work, job.limits)
        job.continuation.resume(returning: outcome)
        return isAlive
    }

    /// Does the work of a job, and returns whether the connection can continue. If the connection cannot continue, it
    /// is closed.
    func perform(_ work: Job.Work, _ limits: Limits) -> (outcome: Job.Outcome, isAlive: Bool) {
        if let kind = limits.interruption(at: .now) {
            return (.failure(PostgresError(kind, "before it was sent")), true)
        }
        let (outcome, isAlive) =
            switch work {
            case .pipeline(let queries): pipeline(queries, limits)
            case .script(let text): script(text, limits)
            }
        deliverNotifications()
        // The state is published before the result, because the caller may read the state as soon as it has the result.
        mailbox.finished(in: handle.transaction, needsReplacement: needsReplacement, isReadOnly: handle.isReadOnly)
        if !isAlive { mailbox.close() }
        return (outcome, isAlive)
    }

    private func deliverNotifications() {
        while let notification = handle.nextNotification() {
            configuration.onNotification?(notification)
        }
    }

    /// Answers waiting jobs that are cancelled or whose deadline has passed, and returns the time of the next check.
    @discardableResult
    func answerInterrupted() -> ContinuousClock.Instant? {
        let (jobs, nextDeadline) = mailbox.takeInterrupted(at: .now)
        for (job, kind) in jobs {
            job.continuation.resume(returning: .failure(PostgresError(kind, "before it was sent")))
        }
        return nextDeadline
    }

    /// Waits for the socket, a signal or the deadline. Returns whether the socket is ready.
    func wait(for events: Int32, until deadline: ContinuousClock.Instant?) -> Bool {
        let (isReady, isSignalled) = handle.wait(for: events, or: mailbox.wakeUp, until: deadline)
        if isSignalled { mailbox.clearSignal() }
        return isReady
    }
}

extension ConnectionDriver {
    /// Runs a text of several statements with the simple protocol, which pipeline mode does not allow.
    func script(_ text: String, _ limits: Limits) -> (outcome: Job.Outcome, isAlive: Bool) {
        // libpq takes a C string, which ends at a zero byte.
        if text.utf8.contains(0) {
            return (.failure(PostgresError(.server(sqlState: "22021"), "the script contains U+0000")), true)
        }
        guard handle.exitPipeline(), handle.send(script: text) else {
            return (.failure(PostgresError(.connectionLost, handle.message)), false)
        }
        var failure: PostgresError?
        let (end, interruption) = exchange(limits) { drain(failure: &failure) }
        switch end {
        case .done:
            guard handle.enterPipeline() else {
                return (.failure(PostgresError(.connectionLost, handle.message)), false)
            }
            return (failure.map { .failure($0.interpreted(interruption)) } ?? .success([]), true)
        case .broken, .unresponsive:
            let error = failure ?? PostgresError(interruption.ofNoAnswer ?? .connectionLost, handle.message)
            return (.failure(error), false)
        }
    }

    private func drain(failure: inout PostgresError?) -> Drained {
        while !handle.isBusy {
            guard let result = handle.nextResult() else { return handle.hasFailed ? .broken : .done }
            switch result.outcome {
            case .success: break
            case .failure: if failure == nil { failure = result.error(statement: nil, index: nil) }
            case .aborted, .end, .sync, .unexpected: return .broken
            }
        }
        return handle.hasFailed ? .broken : .pending
    }
}

/// Work for a connection's thread, with the caller that waits for the result.
struct Job: Sendable {
    enum Work: Sendable {
        /// Queries to run in one pipeline with one Sync. Without queries, the pipeline is only a round trip.
        case pipeline([Query])
        /// A text of several statements, outside pipeline mode.
        case script(String)
    }

    typealias Outcome = Result<[Rows], PostgresError>

    let work: Work
    let limits: Limits
    let continuation: CheckedContinuation<Outcome, Never>
}
