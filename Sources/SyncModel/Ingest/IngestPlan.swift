/// The decisions about one batch of events.
public struct IngestPlan: Sendable {
    /// In the order of the events.
    public internal(set) var verdicts: [IngestVerdict] = []
    /// Events that are to be remembered, with what became of them.
    public internal(set) var remembered: [(event: ReceivedEvent, result: IngestResult)] = []
    /// Entity types that are in use from now on.
    public internal(set) var typesToRegister: [EntityType] = []

    public init() {}
}
