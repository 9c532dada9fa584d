public import Foundation
public import JSONText

/// A mutation's content as it is to run next: what was stored, with a person's changes.
public struct SettledContent: Sendable {
    /// Where it is replayed; nil for none.
    public let endpoint: Endpoint?
    /// Nil for none.
    public let payload: JSONValue?
    private let entity: EntityName
    /// Ids of the mutation's device in the payload's relations.
    let localReferences: [LocalReference]

    /// Puts the changes in place. Stored content was checked when it was pushed.
    public init(_ subject: SettleSubject, _ edit: ContentEdit) {
        endpoint = edit.endpoint ?? subject.endpoint
        payload = edit.payload ?? subject.payload.flatMap { try? JSONTree(parsing: $0, limits: .widest).root }
        entity = subject.record.entity
        localReferences = subject.type.localReferences(in: payload, on: subject.record.deviceID)
    }

    /// Distinct ids of the mutation's device: those in the payload's relations, and the entity's own.
    public var localIDs: [LocalID] {
        Set(localReferences.map(\.id) + [entity.localID].compactMap { $0 }).sorted()
    }

    /// Distinct UUIDs that may be client ids, in order of appearance: those of endpoint and payload, what stands for ids of
    /// the device there, then the entity's.
    public var identifiers: [UUID] {
        var seen: Set<UUID> = []
        let named = (endpoint?.uuids ?? []) + (payload?.uuids ?? []) + localReferences.map(\.clientID)
        return (named + [entity.clientID].compactMap { $0 }).filter { seen.insert($0).inserted }
    }
}
