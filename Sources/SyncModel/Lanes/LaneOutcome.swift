/// A mutation whose turn had come, and what came of that.
package struct LaneOutcome: Sendable {
    package let mutation: QueuedMutation
    /// In flight, or pending where it came to something without being run.
    package let from: MutationStatus
    package let outcome: Outcome
    /// The entity's version afterwards; nil where the feed does not learn of it.
    package var version: Int64?

    /// Where it stands now; one that is sent otherwise stays where it is.
    package var status: MutationStatus? { from.moved(to: outcome.status) }
}
