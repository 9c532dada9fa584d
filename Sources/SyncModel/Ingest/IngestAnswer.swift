/// The answer to a batch of events.
public struct IngestAnswer: Sendable {
    /// In request order.
    public var verdicts: [IngestVerdict]
    /// A pull that has reached this cursor has seen what was applied.
    public var feed: String

    public init(verdicts: [IngestVerdict], feed: String) {
        self.verdicts = verdicts
        self.feed = feed
    }
}

/// The outcome of one event of a batch.
public struct IngestVerdict: Sendable, Hashable {
    /// Nil where the event has no readable id.
    @Exact public var eventID: String?
    public var result: IngestResult
    /// The entity's version in the feed, as of then; nil where the feed does not know it, and of what waits, was taken
    /// before or was refused.
    public var version: Int64?
    /// Of a duplicate: the outcome of the first event with this id.
    public var original: IngestResult?
    /// Of what was refused.
    public var problem: Problem?

    public init(
        eventID: String?,
        _ result: IngestResult,
        version: Int64? = nil,
        original: IngestResult? = nil,
        problem: Problem? = nil
    ) {
        self.eventID = eventID
        self.result = result
        self.version = version
        self.original = original
        self.problem = problem
    }
}
