public import Foundation
public import JSONText

/// A device's own id in a relation of a payload.
public struct LocalReference: Sendable {
    /// Ids that the relations of one mutation may hold.
    public static let limit = 1_000

    public let id: LocalID
    /// The client id that represents the device id.
    public let clientID: UUID
    public let place: RelatedValue

    /// Replaces the device's id with the entity's permanent id.
    public func edit(_ serverID: ServerID) -> JSONEdit {
        JSONEdit(place.value, serverID.replacement)
    }
}

extension EntityType {
    /// Whether payloads of the type may hold device ids.
    public var holdsLocalIDs: Bool { relations.contains { $0.idSpace == .device } }

    /// The device ids in a payload, in document order. A string in such a relation is a permanent id already.
    public func localReferences(in payload: JSONValue?, on device: UUID) -> [LocalReference] {
        guard let payload, holdsLocalIDs else { return [] }
        return payload.values(in: relations).compactMap { place in
            guard place.relation.idSpace == .device, let number = place.value.int64 else { return nil }
            let id = LocalID(entityType: place.relation.entityType, number: number)
            return LocalReference(id: id, clientID: id.clientID(on: device), place: place)
        }
    }
}

extension ContentRules {
    /// Checks that relations contain ids.
    ///
    /// Relations to a type with device ids contain 64-bit integers of the device, or permanent ids as strings.
    /// Relations to other types may contain any value, as elsewhere in a payload.
    static func checkRelations(_ payload: JSONValue?, in type: EntityType) throws(Violation) {
        guard let payload, !type.relations.isEmpty else { return }
        var count = 0
        for place in payload.values(in: type.relations) {
            let name = place.relation.entityType
            switch place.relation.idSpace {
            case .mapped, .shared: continue
            case nil:
                // the type may be registered with device ids later: this number would mean another entity on each
                // device
                guard place.value.int64 != nil else { continue }
                let detail = "refers to '\(name)', which is not a registered entity type of this organization"
                throw Violation(rule: Rule.entityType, detail: detail, pointer: place.pointer)
            case .device:
                count += 1
                guard count <= LocalReference.limit else {
                    let detail = "the relations of a mutation may contain at most \(LocalReference.limit) ids"
                    throw Violation(rule: Rule.range, detail: detail, pointer: place.pointer)
                }
                guard place.value.int64 == nil, place.value.string == nil else { continue }
                let detail =
                    "refers to '\(name)', so it must be a 64-bit integer of this device, an array of them, or null"
                throw Violation(rule: Rule.clientID, detail: detail, pointer: place.pointer)
            }
        }
    }
}
