/// The states of a write in the outbox, as conditions of SQL: `queued` and `sent` are the phone's own, the others the
/// gateway's (`docs/api.md`, status).
enum WriteStatus {
    static let openOnes = ["queued", "sent"] + takenOnes
    private static let takenOnes = ["pending", "blocked", "in_flight"]
    private static let stoppedOnes = ["failed", "conflict", "rejected"]

    /// It goes on by itself.
    static let isOpen = condition(openOnes)
    /// The gateway has it, and what becomes of it is asked for.
    static let isTaken = condition(takenOnes)
    /// It did not take effect, and waits for a decision, or for the gateway to hear of one.
    static let isStopped = condition(stoppedOnes)
    /// Nothing more happens to it.
    static let isEnded = condition(["succeeded", "discarded"])
    /// It may still take effect.
    static let isUnfinished = condition(openOnes + stoppedOnes)
    /// Nobody has to decide anything: it is open, or the gateway will hear of the decision.
    static let isPending = "(\(isOpen) OR \(isStopped) AND \(isDecided))"
    /// A person has to decide.
    static let needsDecision = "(\(isStopped) AND NOT \(isDecided))"

    private static let isDecided = "id IN (SELECT mutation_id FROM sluice_intents)"

    private static func condition(_ statuses: [String]) -> String {
        "status IN (\(statuses.map { "'\($0)'" }.joined(separator: ", ")))"
    }
}
