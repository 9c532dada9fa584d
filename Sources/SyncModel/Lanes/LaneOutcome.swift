/// A mutation whose turn had come, and the outcome.
public struct LaneOutcome: Sendable {
    public let mutation: QueuedMutation
    /// In flight, or pending where the mutation has an outcome without being run.
    public let from: MutationStatus
    public let outcome: Outcome
    /// The entity's version afterwards; nil where it is not written to the feed.
    public var version: Int64?

    /// The mutation's new status; one that is sent in another form stays as it is.
    public var status: MutationStatus? { from.moved(to: outcome.status) }
}
