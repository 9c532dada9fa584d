import Glibc

extension ConnectionDriver {
    enum Drained {
        /// More is to come.
        case pending
        case done
        /// The connection is lost or out of step.
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
        /// How long the server has to react.
        static let grace: Duration = .seconds(1)
        /// The interval of repetitions of a request to cancel.
        ///
        /// The server ignores a request that arrives between two statements.
        static let interval: Duration = .milliseconds(100)

        let kind: PostgresError.Kind
        let giveUpAt: ContinuousClock.Instant
        var request: CancelRequest?
        var requestAt: ContinuousClock.Instant
    }

    /// Sends what is buffered and receives until `drain` has all results.
    ///
    /// Cancels the statement on the server when the limits require it, and returns why.
    func exchange(_ limits: Limits, drain: () -> Drained) -> (End, interruption: PostgresError.Kind?) {
        var interruption: Interruption?
        var isDone = false
        while true {
            let unsent = handle.flush()
            if !isDone {
                switch drain() {
                case .done: isDone = true
                case .broken: return (.broken, interruption?.kind)
                // A dying server's last message may still have been in the socket.
                case .pending where unsent == nil: return (.broken, interruption?.kind)
                case .pending: break
                }
            }
            // A request in progress must not hit the next job.
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
