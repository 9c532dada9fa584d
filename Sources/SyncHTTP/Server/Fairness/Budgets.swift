import SyncModel

/// The budgets that all requests of a server share.
///
/// No organization holds more of any than its share (product rule 16).
package final class Budgets: Sendable {
    /// How long a request waits for room: a client that has waited longer has given up, or does better to come back.
    private static let timeout: Duration = .seconds(5)
    /// The interval at which waiting requests are checked.
    private static let interval: Duration = .milliseconds(250)
    /// As much as is verified within a few dozen milliseconds.
    private static let verifyingBytes = 4_194_304

    /// Bytes of bodies, from the first byte until their requests are done.
    package let bodies: FairBudget
    /// Bytes of bodies whose senders are not known yet.
    package let unverified: UnverifiedBodies
    /// Bytes of bodies whose signatures are being verified.
    package let verifying: AdmissionController
    /// Bytes of bodies that are being decoded, or wait decoded for their commit.
    package let decoding: AdmissionController
    /// Bytes of responses, from before they are made until the client has read them.
    package let answers: AdmissionController
    /// Pages that are being read.
    package let pages: AdmissionController
    /// Requests that are held until something happens.
    package let waits: FairBudget
    package let slowClients = SlowClientMetrics()

    package init(_ configuration: HTTPConfiguration) {
        bodies = FairBudget(.bodies, limit: configuration.heldBodyBytes, label: HTTPMetrics.heldBodyBytes)
        unverified = UnverifiedBodies(configuration.unverifiedBodies)
        verifying = AdmissionController(.verifying, limit: Self.verifyingBytes, timeout: Self.timeout)
        decoding = AdmissionController(.decoding, limit: configuration.decodedBodyBytes, timeout: Self.timeout)
        answers = AdmissionController(
            .answers,
            limit: configuration.heldAnswerBytes,
            timeout: Self.timeout,
            label: HTTPMetrics.heldAnswerBytes
        )
        pages = AdmissionController(.pages, limit: configuration.concurrentPages, timeout: Self.timeout)
        // each waiting request keeps a connection
        waits = FairBudget(.waits, limit: configuration.maximumConnections, label: HTTPMetrics.waits)
    }

    /// Turns away requests that wait for room too long, for as long as an operation runs.
    package func expiringWaiters(while operation: @escaping @Sendable () async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await operation() }
            group.addTask { [unverified, verifying, decoding, answers, pages] in
                while !Task.isCancelled {
                    try? await Task.sleep(for: Self.interval)
                    unverified.expire()
                    verifying.expire()
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
