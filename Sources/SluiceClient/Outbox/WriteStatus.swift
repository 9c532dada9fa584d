/// The states of a write in the outbox, as conditions of SQL: `queued` and `sent` are the phone's own, the others the
/// gateway's (`docs/api.md`, status).
enum WriteStatus {
    static let openOnes = ["queued", "sent"] + takenOnes
    private static let takenOnes = ["pending", "blocked", "in_flight"]
    private static let stoppedOnes = ["failed", "conflict", "rejected"]

    /// It continues without a decision.
    static let isOpen = condition(openOnes)
    /// The gateway has it, and its outcome is requested.
    static let isTaken = condition(takenOnes)
    /// It did not take effect, and waits for a decision, or for the gateway to receive one.
    static let isStopped = condition(stoppedOnes)
    /// Nothing more happens to it.
    static let isEnded = condition(["succeeded", "discarded"])
    /// It may still take effect.
    static let isUnfinished = condition(openOnes + stoppedOnes)
    /// It requires no decision: it is open, or its decision is still to be sent to the gateway.
    static let isPending = "(\(isOpen) OR \(isStopped) AND \(isDecided))"
    /// A person has to decide.
    static let needsDecision = "(\(isStopped) AND NOT \(isDecided))"

    private static let isDecided = "id IN (SELECT mutation_id FROM sluice_intents)"

    private static func condition(_ statuses: [String]) -> String {
        "status IN (\(statuses.map { "'\($0)'" }.joined(separator: ", ")))"
    }
}
