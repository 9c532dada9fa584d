public import Foundation
public import JSONText

/// A mutation that a person settles, as it is stored.
public struct SettleSubject: Sendable {
    /// How it stands.
    public let record: MutationRecord
    /// Where it is replayed.
    public let endpoint: String?
    /// Its payload as it was written, JSON.
    public let payload: [UInt8]?
    /// Whether the last request of its revision may have taken effect without our knowing.
    public let isOutcomeUnknown: Bool
    /// The type of its entity.
    public let type: EntityType

    /// Creates the value.
    public init(
        record: MutationRecord,
        endpoint: String?,
        payload: [UInt8]?,
        isOutcomeUnknown: Bool,
        type: EntityType
    ) {
        self.record = record
        self.endpoint = endpoint
        self.payload = payload
        self.isOutcomeUnknown = isOutcomeUnknown
        self.type = type
    }

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

/// A mutation's content as it is to run next: what was stored, with a person's changes.
public struct SettledContent: Sendable {
    /// Where it is replayed; nil for none.
    public let endpoint: Endpoint?
    /// Nil for none.
    public let payload: JSONValue?
    /// Client id of its own entity.
    let localID: UUID?

    /// Puts the changes in place. Stored content was checked when it was pushed.
    public init(_ subject: SettleSubject, _ edit: ContentEdit) {
        endpoint = edit.endpoint ?? subject.endpoint.flatMap { try? Endpoint($0) }
        payload = edit.payload ?? subject.payload.flatMap { try? JSONTree(parsing: $0, limits: .widest).root }
        localID = subject.record.localID
    }

    /// Distinct UUIDs that may be client ids, in order of appearance: those of endpoint and payload, then the entity's.
    public var identifiers: [UUID] {
        var seen: Set<UUID> = []
        return (references + [localID].compactMap { $0 }).filter { seen.insert($0).inserted }
    }

    /// UUIDs in endpoint and payload.
    var references: [UUID] {
        var seen: Set<UUID> = []
        return ((endpoint?.uuids ?? []) + (payload?.uuids ?? [])).filter { seen.insert($0).inserted }
    }
}
