/// The answer to a batch of events.
public struct IngestAnswer: Sendable {
    /// In request order.
    public var verdicts: [IngestVerdict]
    /// A pull that has reached this cursor has seen the applied events.
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
    /// The entity's version in the feed at that time.
    ///
    /// Nil if the feed does not have the entity, and for an event that waits, was taken before or was refused.
    public var version: Int64?
    /// Of a duplicate: the outcome of the first event with this id.
    public var original: IngestResult?
    /// The problem of a refused event.
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
