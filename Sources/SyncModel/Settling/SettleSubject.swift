/// A mutation that a person settles, as it is stored.
public struct SettleSubject: Sendable {
    /// How it stands.
    public let record: MutationRecord
    /// Where it is replayed.
    public let endpoint: Endpoint?
    /// Its payload as it was written, JSON.
    public let payload: [UInt8]?
    /// Whether the last request of its revision may have taken effect without our knowing.
    public let isOutcomeUnknown: Bool
    /// The type of its entity.
    public let type: EntityType
    /// Client ids that its content names.
    public let references: References

    /// Creates the value.
    public init(
        record: MutationRecord,
        endpoint: Endpoint?,
        payload: [UInt8]?,
        isOutcomeUnknown: Bool,
        type: EntityType,
        references: References = References()
    ) {
        self.record = record
        self.endpoint = endpoint
        self.payload = payload
        self.isOutcomeUnknown = isOutcomeUnknown
        self.type = type
        self.references = references
    }

    /// Whether the upstream answered with a success that could not be used: a create is there, and nobody knows as what.
    var hasTakenEffect: Bool {
        record.status == .failed && record.responseStatus.map { (200...299).contains($0) } ?? false
    }

    /// Whether sending the mutation under a new key might have it take effect twice (product rule 6).
    public var mayHaveTakenEffect: Bool { isOutcomeUnknown || hasTakenEffect }

    /// Throws 409 unless the status is one of those.
    func require(_ statuses: [MutationStatus], to move: String) throws(Problem) {
        guard !statuses.contains(record.status) else { return }
        let names = statuses.map(\.rawValue).joined(separator: ", ")
        throw Problem(
            .statusTransitionMustBeValid,
            "the mutation is \(record.status.rawValue); to \(move) it, it must be one of: \(names)"
        )
    }
}
