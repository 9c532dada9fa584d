/// A mutation whose turn had come, and what came of that.
public struct LaneOutcome: Sendable {
    public let mutation: QueuedMutation
    /// In flight, or pending where it came to something without being run.
    public let from: MutationStatus
    public let outcome: Outcome
    /// The entity's version afterwards; nil where the feed does not learn of it.
    public var version: Int64?

    /// Where it stands now; one that is sent otherwise stays where it is.
    public var status: MutationStatus? { from.moved(to: outcome.status) }
}
