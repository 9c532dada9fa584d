/// The limits that end a job early.
struct Limits: Sendable {
    let deadline: ContinuousClock.Instant?
    let ticket: CancellationToken

    /// The reason to stop the job, if there is one.
    func interruption(at now: ContinuousClock.Instant) -> PostgresError.Kind? {
        if ticket.isCancelled { return .cancelled }
        if let deadline, deadline <= now { return .timedOut }
        return nil
    }
}
