import SyncModel

/// What all requests of a server share. No organization holds more of any than its part (product rule 16).
final class Budgets: Sendable {
    /// How long one waits for room: a client that has waited longer has given up, or will do better to come back.
    private static let patience: Duration = .seconds(5)
    /// Bodies that are decoded at the same time, in bytes: some hundreds of full pushes, or thousands of small ones.
    private static let decodedBytes = 4_194_304
    /// How often those who wait are looked at.
    private static let interval: Duration = .milliseconds(250)

    /// Bytes of bodies, from the first until what they hold is done.
    let bodies: FairBudget
    /// Bytes of bodies that are decoded, and wait decoded for their commit.
    let decoding: FairGate
    /// Bytes of answers, from before they are made until the client has taken them.
    let answers: FairGate
    /// Pages that are being read.
    let pages: FairGate
    /// Requests that are held until something happens.
    let waits: FairBudget
    /// Whom there was no waiting for.
    let cutOffs = CutOffs()

    init(_ configuration: HTTPConfiguration) {
        bodies = FairBudget(.bodies, limit: configuration.heldBodyBytes, label: HTTPMetrics.heldBodyBytes)
        decoding = FairGate(.decoding, limit: Self.decodedBytes, patience: Self.patience)
        answers = FairGate(
            .answers,
            limit: configuration.heldAnswerBytes,
            patience: Self.patience,
            label: HTTPMetrics.heldAnswerBytes
        )
        pages = FairGate(.pages, limit: configuration.concurrentPages, patience: Self.patience)
        // who waits keeps a connection
        waits = FairBudget(.waits, limit: configuration.maximumConnections, label: HTTPMetrics.waits)
    }

    /// Turns away who waits for room too long, for as long as an operation runs.
    func turningAway(while operation: @escaping @Sendable () async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await operation() }
            group.addTask { [decoding, answers, pages] in
                while !Task.isCancelled {
                    try? await Task.sleep(for: Self.interval)
                    decoding.expire()
                    answers.expire()
                    pages.expire()
                }
            }
            defer { group.cancelAll() }
            try await group.next()
        }
    }
}
