public import Foundation
public import JSONText

/// A mutation's content for its next run.
///
/// The stored content, with a person's changes.
public struct SettledContent: Sendable {
    /// Nil for none.
    public let endpoint: Endpoint?
    /// Nil for none.
    public let payload: JSONValue?
    private let entity: EntityName
    /// Device ids in the payload's relations.
    let localReferences: [LocalReference]

    /// Stored content was checked when it was pushed.
    public init(_ subject: SettleSubject, _ edit: ContentEdit) {
        endpoint = edit.endpoint ?? subject.endpoint
        payload = edit.payload ?? subject.payload.flatMap { try? JSONTree(parsing: $0, limits: .widest).root }
        entity = subject.record.entity
        localReferences = subject.type.localReferences(in: payload, on: subject.record.deviceID)
    }

    /// Distinct device ids: those in the payload's relations, and the entity's own.
    public var localIDs: [LocalID] {
        Set(localReferences.map(\.id) + [entity.localID].compactMap { $0 }).sorted()
    }

    /// Distinct UUIDs that may be client ids, in order of appearance.
    ///
    /// Those of endpoint and payload, those that represent device ids there, then the entity's.
    public var identifiers: [UUID] {
        var seen: Set<UUID> = []
        let named = (endpoint?.uuids ?? []) + (payload?.uuids ?? []) + localReferences.map(\.clientID)
        return (named + [entity.clientID].compactMap { $0 }).filter { seen.insert($0).inserted }
    }
}
