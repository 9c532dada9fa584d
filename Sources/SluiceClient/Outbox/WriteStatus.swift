/// The states of a write in the outbox, as SQL conditions. `queued` and `sent` exist only on the phone. All other
/// states are the gateway's (`docs/api.md`, status).
enum WriteStatus {
    static let openOnes = ["queued", "sent"] + takenOnes
    private static let takenOnes = ["pending", "blocked", "in_flight"]
    private static let stoppedOnes = ["failed", "conflict", "rejected"]

    /// The write continues without a decision.
    static let isOpen = condition(openOnes)
    /// The gateway has accepted the write, and the phone requests its outcome.
    static let isTaken = condition(takenOnes)
    /// The write did not take effect. It waits for a decision, or for the gateway to receive the decision.
    static let isStopped = condition(stoppedOnes)
    /// The write has reached its final state.
    static let isEnded = condition(["succeeded", "discarded"])
    /// The write may still take effect.
    static let isUnfinished = condition(openOnes + stoppedOnes)
    /// The write requires no decision: it is open, or a decision about it has still to be sent to the gateway.
    static let isPending = "(\(isOpen) OR \(isStopped) AND \(isDecided))"
    /// A person must decide about the write.
    static let needsDecision = "(\(isStopped) AND NOT \(isDecided))"

    private static let isDecided = "id IN (SELECT mutation_id FROM sluice_intents)"

    private static func condition(_ statuses: [String]) -> String {
        "status IN (\(statuses.map { "'\($0)'" }.joined(separator: ", ")))"
    }
}
