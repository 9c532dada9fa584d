/// A mutation that a person settles, as it is stored.
public struct SettleSubject: Sendable {
    public let record: MutationRecord
    public let endpoint: Endpoint?
    /// JSON as it was written.
    public let payload: [UInt8]?
    /// Whether the last request of its revision may have taken effect unnoticed.
    public let isOutcomeUnknown: Bool
    public let type: EntityType
    /// Client ids in its content.
    public let references: References

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

    /// Whether the upstream answered with an unusable success.
    ///
    /// It created the entity, but the answer does not name it.
    var hasTakenEffect: Bool {
        record.status == .failed && record.responseStatus.map { (200...299).contains($0) } ?? false
    }

    /// Whether a new idempotency key might make the mutation take effect twice.
    ///
    /// Product rule 6.
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
