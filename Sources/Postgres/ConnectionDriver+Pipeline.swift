import Glibc

extension ConnectionDriver {
    /// The maximum number of bytes of a statement's values.
    ///
    /// A message of the protocol has less than 1 GiB, and a part of the message is needed for other data than values.
    private static let maximumMessage = 0x3fff_0000
    /// If a send buffer exceeds this size, the connection should be replaced, because libpq never makes the buffer
    /// smaller.
    private static let replacementBytes = 16 << 20

    /// Sends all queries with one Sync and collects their results.
    ///
    /// `isAlive` is true if the connection can continue.
    func pipeline(_ queries: [Query], _ limits: Limits) -> (outcome: Job.Outcome, isAlive: Bool) {
        guard let transactionGuard else { return plainPipeline(queries, limits) }
        let guarded = GuardedPipeline(queries, by: transactionGuard)
        let (outcome, isAlive) = plainPipeline(guarded.queries, limits)
        return (guarded.outcome(outcome), isAlive)
    }

    private func plainPipeline(_ queries: [Query], _ limits: Limits) -> (outcome: Job.Outcome, isAlive: Bool) {
        let sent: [Query]
        do throws(PostgresError) {
            sent = try translated(queries)
        } catch {
            return (.failure(error), true)
        }
        if let error = refusal(of: sent) { return (.failure(error), true) }
        let (steps, unsent) = send(sent)
        guard handle.sync() else {
            return (.failure(PostgresError(.connectionLost, handle.message)), false)
        }
        var collector = PipelineResults(queries: queries, progress: PipelineProgress(steps))
        collector.error = unsent
        _ = handle.takeCommitWarning()
        let (end, interruption) = exchange(limits) { drain(into: &collector, of: sent) }
        if collector.needsFreshConnection { needsReplacement = true }
        switch end {
        case .done:
            // if the server cannot write, drop the session, because the next session may reach a server that can
            let isLost = collector.error?.isOfReadOnlyServer ?? false
            collector.error?.leavesSession = true
            return (collector.outcome(interruption: interruption), !isLost)
        case .broken:
            let lost = mailbox.isClosing ? "the connection was closed" : handle.message
            let error = collector.broken() ?? PostgresError(interruption.ofNoAnswer ?? .connectionLost, lost)
            return (.failure(error), false)
        case .unresponsive:
            let kind = interruption.ofNoAnswer ?? .connectionLost
            return (.failure(PostgresError(kind, "the server did not react to the request to cancel")), false)
        }
    }

    private func translated(_ queries: [Query]) throws(PostgresError) -> [Query] {
        guard let translation else { return queries }
        return try queries.map(translation)
    }

    /// Returns the reason why these queries cannot be sent; nil if they can be sent. All queries are checked before the
    /// first query is sent.
    private func refusal(of queries: [Query]) -> PostgresError? {
        for (index, query) in queries.enumerated() {
            let name = query.statement.name
            if query.parameters.buffer.count > Self.maximumMessage || query.parameters.count > 65_535 {
                let kind = PostgresError.Kind.server(sqlState: "54023")
                return PostgresError(kind, "parameters too large to send", statement: name, statementIndex: index)
            }
            guard let known = prepared[name] else { continue }
            if known.sql != query.statement.sql || known.types != query.parameters.types {
                let message = "the name was prepared with another text or other parameter types"
                return PostgresError(.decoding, message, statement: name, statementIndex: index)
            }
        }
        return nil
    }

    /// Passes the queries to libpq, and prepares statements at their first use.
    ///
    /// A returned error comes from libpq and not from the server. The server still answers the queries that were sent
    /// before the error.
    private func send(_ queries: [Query]) -> (steps: [PipelineProgress.Step], PostgresError?) {
        var steps: [PipelineProgress.Step] = []
        steps.reserveCapacity(queries.count)
        var preparing: Set<String> = []
        var bytes = 0
        for (index, query) in queries.enumerated() {
            let statement = query.statement
            bytes += query.parameters.buffer.count
            let isUnknown = prepared[statement.name] == nil && preparing.insert(statement.name).inserted
            if isUnknown || statement.name.isEmpty {
                guard handle.sendPrepare(statement.name, statement.sql, query.parameters.types) else {
                    return (steps, unsendable(statement, index))
                }
                steps.append(.prepare(index))
            }
            guard pointers.withValues(of: query.parameters, { handle.sendExecute(statement.name, $0) }) else {
                return (steps, unsendable(statement, index))
            }
            steps.append(.execute(index))
        }
        if bytes > Self.replacementBytes { needsReplacement = true }
        return (steps, nil)
    }

    private func unsendable(_ statement: Statement, _ index: Int) -> PostgresError {
        PostgresError(.decoding, handle.message, statement: statement.name, statementIndex: index)
    }

    private func drain(into collector: inout PipelineResults, of queries: [Query]) -> Drained {
        while !handle.isBusy {
            let result = handle.nextResult()
            if result == nil, handle.hasFailed { return .broken }
            switch collector.receive(result) {
            case .finish: return .done
            case .abandon: return .broken
            case .prepared(let index):
                let query = queries[index]
                if query.statement.name.isEmpty { break }
                prepared[query.statement.name] = Prepared(sql: query.statement.sql, types: query.parameters.types)
            case .ignore, .keep, .fail: break
            }
            // a notice arrives before the result of its command; in an implicit transaction, it arrives after the last
            // result
            if handle.takeCommitWarning() { collector.warn() }
        }
        return handle.hasFailed ? .broken : .pending
    }
}

extension PostgresError.Kind? {
    /// The kind of error to report if the server does not react to a request to cancel: a time-out becomes
    /// `unresponsive`.
    var ofNoAnswer: PostgresError.Kind? { self == .timedOut ? .unresponsive : self }
}

extension ConnectionDriver {
    enum Drained {
        /// Further results are expected.
        case pending
        case done
        /// The connection is lost or out of sync.
        case broken
    }

    enum End {
        case done
        case broken
        /// The server did not react to a request to cancel.
        case unresponsive
    }

    /// A job that is being cancelled on the server.
    private struct Interruption {
        /// The time within which the server must react.
        static let grace: Duration = .seconds(1)
        /// The interval at which a request to cancel is repeated. The server ignores a request that arrives between two
        /// statements.
        static let interval: Duration = .milliseconds(100)

        let kind: PostgresError.Kind
        let giveUpAt: ContinuousClock.Instant
        var request: CancelRequest?
        var requestAt: ContinuousClock.Instant
    }

    /// Sends buffered bytes and receives until `drain` has all results.
    ///
    /// If the job is cancelled or its deadline passes, the method requests the server to cancel the statement, and
    /// returns the reason.
    func exchange(_ limits: Limits, drain: () -> Drained) -> (End, interruption: PostgresError.Kind?) {
        var interruption: Interruption?
        var isDone = false
        while true {
            let unsent = handle.flush()
            if !isDone {
                switch drain() {
                case .done: isDone = true
                case .broken: return (.broken, interruption?.kind)
                // Sending failed. The results are still read, because they may include the last message of a dying
                // server.
                case .pending where unsent == nil: return (.broken, interruption?.kind)
                case .pending: break
                }
            }
            // A request to cancel that is still in progress must not reach the next job.
            if isDone, interruption?.request.map(\.isSent) ?? true { return (.done, interruption?.kind) }
            let now = ContinuousClock.now
            interrupt(&interruption, limits, at: now, isDone: isDone)
            if mailbox.isClosing { return (.broken, interruption?.kind) }
            if let interruption, interruption.giveUpAt <= now { return (.unresponsive, interruption.kind) }

            let others = answerInterrupted()
            let own = interruption.map { min($0.giveUpAt, max($0.requestAt, now)) } ?? limits.deadline
            let events = unsent == true ? POLLIN | POLLOUT : POLLIN
            let deadline = [own, others].lazy.compactMap { $0 }.min()
            if wait(for: events, until: deadline), !handle.receive(), drain() != .done {
                return (.broken, interruption?.kind)
            }
        }
    }

    private func interrupt(
        _ interruption: inout Interruption?,
        _ limits: Limits,
        at now: ContinuousClock.Instant,
        isDone: Bool
    ) {
        if interruption == nil {
            let isLate = limits.deadline.map { $0 <= now } ?? false
            guard isLate || limits.ticket.isCancelled else { return }
            interruption = Interruption(
                kind: limits.ticket.isCancelled ? .cancelled : .timedOut,
                giveUpAt: now + Interruption.grace,
                requestAt: now
            )
        }
        guard !isDone, let current = interruption, current.requestAt <= now else { return }
        interruption?.requestAt = now + Interruption.interval
        if current.request.map(\.isSent) ?? true, let key = handle.cancelKey() {
            interruption?.request = CancelRequest(key, then: mailbox)
        }
    }
}
