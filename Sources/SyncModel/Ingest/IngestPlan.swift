/// The decisions about one batch of events.
public struct IngestPlan: Sendable {
    /// In the order of the events.
    public internal(set) var verdicts: [IngestVerdict] = []
    /// Events that are to be remembered, with their outcomes.
    public internal(set) var remembered: [(event: ReceivedEvent, result: IngestResult)] = []
    /// Entity types that are in use from now on.
    public internal(set) var typesToRegister: [EntityType] = []

    public init() {}

    /// Appends the next decisions.
    public mutating func append(_ other: IngestPlan) {
        verdicts += other.verdicts
        remembered += other.remembered
        for type in other.typesToRegister where !typesToRegister.contains(where: { $0.name == type.name }) {
            typesToRegister.append(type)
        }
    }
}
