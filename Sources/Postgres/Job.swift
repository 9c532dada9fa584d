import Synchronization

/// Work for a connection's thread, and the caller that waits for it.
struct Job: Sendable {
    enum Work: Sendable {
        /// All statements in one pipeline with one Sync; without statements, a round trip.
        case pipeline([Query])
        /// A text of several statements, outside pipeline mode.
        case script(String)
    }

    typealias Outcome = Result<[Rows], PostgresError>

    let work: Work
    let deadline: ContinuousClock.Instant?
    let ticket: Ticket
    let continuation: CheckedContinuation<Outcome, Never>

    /// The reason to stop the job, if there is one.
    func interruption(at now: ContinuousClock.Instant) -> PostgresError.Kind? {
        if ticket.isCancelled { return .cancelled }
        if let deadline, deadline <= now { return .timedOut }
        return nil
    }
}
