/// A mutation whose turn had come, and what came of that.
package struct LaneOutcome: Sendable {
    package let mutation: QueuedMutation
    /// In flight, or pending where it came to something without being run.
    package let from: MutationStatus
    package let outcome: Outcome
    /// The entity's version afterwards; nil where the feed does not learn of it.
    package let version: Int64?

    init(_ mutation: QueuedMutation, from: MutationStatus, _ outcome: Outcome, version: Int64? = nil) {
        self.mutation = mutation
        self.from = from
        self.outcome = outcome
        self.version = version
    }

    /// Where it stands now; one that is sent otherwise stays where it is.
    package var status: MutationStatus? { from.moved(to: outcome.status) }
}
