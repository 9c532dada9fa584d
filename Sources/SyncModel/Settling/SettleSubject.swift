package import Foundation
package import JSONText

/// A mutation that a person settles, as it is stored.
package struct SettleSubject: Sendable {
    /// How it stands.
    package let record: MutationRecord
    /// Where it is replayed.
    package let endpoint: String?
    /// Its payload as it was written, JSON.
    package let payload: [UInt8]?
    /// Whether the last request of its revision may have taken effect without our knowing.
    package let isOutcomeUnknown: Bool
    /// The type of its entity.
    package let type: EntityType
    /// Client ids that its content names, as was decided when it was pushed or edited. The rest is data.
    package let references: [UUID]
    /// The types in which these were created; none of what was accepted before that was noted.
    package let referenceTypes: [UUID: String]

    /// Creates the value.
    package init(
        record: MutationRecord,
        endpoint: String?,
        payload: [UInt8]?,
        isOutcomeUnknown: Bool,
        type: EntityType,
        references: [UUID] = [],
        referenceTypes: [UUID: String] = [:]
    ) {
        self.record = record
        self.endpoint = endpoint
        self.payload = payload
        self.isOutcomeUnknown = isOutcomeUnknown
        self.type = type
        self.references = references
        self.referenceTypes = referenceTypes
    }

    /// Whether the upstream answered with a success that could not be used: a create is there, and nobody knows as what.
    var hasTakenEffect: Bool {
        record.status == .failed && record.responseStatus.map { (200...299).contains($0) } ?? false
    }

    /// Whether sending the mutation under a new key might have it take effect twice (product rule 6).
    package var mayHaveTakenEffect: Bool { isOutcomeUnknown || hasTakenEffect }

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
package struct SettledContent: Sendable {
    /// Where it is replayed; nil for none.
    package let endpoint: Endpoint?
    /// Nil for none.
    package let payload: JSONValue?
    /// Client id of its own entity.
    let localID: UUID?
    /// Ids of the mutation's device in the payload's relations.
    let localReferences: [LocalReference]
    private let own: LocalID?

    /// Puts the changes in place. Stored content was checked when it was pushed.
    package init(_ subject: SettleSubject, _ edit: ContentEdit) {
        endpoint = edit.endpoint ?? subject.endpoint.flatMap { try? Endpoint($0) }
        payload = edit.payload ?? subject.payload.flatMap { try? JSONTree(parsing: $0, limits: .widest).root }
        let record = subject.record
        localID = record.localID
        own = record.localNumber.map { LocalID(entityType: record.entityType, number: $0) }
        localReferences = subject.type.localReferences(in: payload, on: record.deviceID)
    }

    /// Distinct ids of the mutation's device: those in the payload's relations, and the entity's own.
    package var localIDs: [LocalID] {
        Set(localReferences.map(\.id) + [own].compactMap { $0 }).sorted()
    }

    /// Distinct UUIDs that may be client ids, in order of appearance: those of endpoint and payload, what stands for ids of
    /// the device there, then the entity's.
    package var identifiers: [UUID] {
        var seen: Set<UUID> = []
        let named = (endpoint?.uuids ?? []) + (payload?.uuids ?? []) + localReferences.map(\.clientID)
        return (named + [localID].compactMap { $0 }).filter { seen.insert($0).inserted }
    }
}
