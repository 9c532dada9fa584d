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
    let limits: Limits
    let continuation: CheckedContinuation<Outcome, Never>
}
