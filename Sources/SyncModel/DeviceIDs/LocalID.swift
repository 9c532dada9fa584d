import Crypto
public import FoundationEssentials
public import JSONText

/// The id of an entity on one device, for types with local ids (specification 002 (docs/spec)).
///
/// The id is a 64-bit integer from the device's own counter. On another device, the same local id identifies another
/// entity, and the same entity has another local id.
public struct LocalID: Sendable, Hashable, Comparable {
    @Exact public private(set) var entityType: String
    /// The local id, which can be any 64-bit integer. Devices count from 1.
    public let number: Int64

    public init(entityType: String, number: Int64) {
        self.entityType = entityType
        self.number = number
    }

    /// The UUID that represents this id in all places where the gateway uses client ids.
    ///
    /// The gateway uses the UUID in look-ups, in dependencies, and in the list of mutations for which a blocked
    /// mutation waits. The UUID is a hash of the device, the type and the local id. Therefore every gateway computes
    /// the same UUID. Clients never receive it. It is a UUID of version 8 (RFC 9562, 5.8).
    public func clientID(on device: UUID) -> UUID { hash(on: device) }

    /// The key of the mapping that keeps the server id of a deleted entity.
    ///
    /// This mapping is used only to compare a repeat with its first push. Because the mapping's key differs from
    /// ``clientID(on:)``, the device may use the local id again. The key is a hash of a prefix and of the values that
    /// ``clientID(on:)`` hashes.
    public func retiredID(on device: UUID) -> UUID { hash(on: device, prefix: Self.retiredPrefix) }

    /// The prefix that ``retiredID(on:)`` hashes, in ASCII.
    public static let retiredPrefix = "retired"

    private func hash(on device: UUID, prefix: String = "") -> UUID {
        var hash = SHA256()
        hash.update(data: Array(prefix.utf8))
        withUnsafeBytes(of: device.uuid) { hash.update(bufferPointer: $0) }
        withUnsafeBytes(of: number.bigEndian) { hash.update(bufferPointer: $0) }
        var name = entityType
        name.withUTF8 { hash.update(bufferPointer: UnsafeRawBufferPointer($0)) }
        return UUID(hash: hash.finalize())
    }

    /// Orders ids by type, then by local id, in the same way as the primary key of the table `local_ids`.
    public static func < (left: LocalID, right: LocalID) -> Bool {
        (left.entityType, left.number) < (right.entityType, right.number)
    }

    /// The text for the id in problems.
    var words: String { "local id \(number) in '\(entityType)'" }
}

/// A local id in a relation of a payload.
public struct LocalReference: Sendable {
    /// The maximum number of local ids in the relations of one mutation.
    public static let limit = 1_000

    public let id: LocalID
    /// The UUID that represents the local id.
    public let clientID: UUID
    public let place: RelatedValue

    /// Returns the edit that replaces the local id by the entity's permanent id.
    public func edit(_ serverID: ServerID) -> JSONEdit {
        JSONEdit(place.value, serverID.replacement)
    }
}

extension EntityType {
    /// Whether payloads of the type can contain local ids.
    public var holdsLocalIDs: Bool { relations.contains { $0.idSpace == .device } }

    /// The local ids in a payload, in document order.
    ///
    /// A string in a relation to a type with local ids is not included, because it is already a permanent id.
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
    /// Checks that relations contain valid ids.
    ///
    /// A relation to a type with local ids contains 64-bit integers of the device, or permanent ids as strings. A
    /// relation to another registered type may contain any value. A relation to an unregistered type must not contain a
    /// 64-bit integer.
    static func checkRelations(_ payload: JSONValue?, in type: EntityType) throws(Violation) {
        guard let payload, !type.relations.isEmpty else { return }
        var count = 0
        for place in payload.values(in: type.relations) {
            let name = place.relation.entityType
            switch place.relation.idSpace {
            case .mapped, .shared: continue
            case nil:
                // the type may be registered with local ids later; the local id would then identify a different entity
                // on each device
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
                    "refers to '\(name)', so it must be a 64-bit integer of this device, a permanent id as a string, "
                    + "an array of these, or null"
                throw Violation(rule: Rule.clientID, detail: detail, pointer: place.pointer)
            }
        }
    }
}

/// The local ids in a push, which are the ids in relations and the ids of the entities that the push writes.
public struct PushLocalIDs: Sendable {
    /// The maximum number of ids in the relations of one push. This maximum limits the size of a look-up.
    public static let limit = 20_000

    /// The references of an entry, by the entry's index.
    ///
    /// Entries without references are not included.
    private var references: [Int: [LocalReference]] = [:]
    /// The entity types of entries, by the entry's index. Only types with relations that can contain local ids are
    /// included.
    private var types: [Int: EntityType] = [:]
    /// The entries that are left out, because with their ids and the ids of the earlier entries the push would exceed
    /// ``limit``.
    private(set) var crowded: Set<Int> = []
    /// All local ids in the push, by the UUID that represents the local id.
    ///
    /// The local ids of creates are included.
    public private(set) var named: [UUID: LocalID] = [:]
    /// The UUIDs that represent the local ids of creates.
    ///
    /// If a pull assigned one of these ids, the device has not applied this pull. A device that has applied the pull
    /// would not create an entity under an id that is in use.
    public private(set) var created: Set<UUID> = []

    /// Creates the value for a push without local ids.
    public init() {}

    public init(_ push: PushRequest, type: (String) -> EntityType?) {
        var room = PushLocalIDs.limit
        for entry in push.entries {
            guard let mutation = entry.mutation else { continue }
            if let id = mutation.entity.localID, let standIn = mutation.entity.clientID {
                named[standIn] = id
                if mutation.operation == .create { created.insert(standIn) }
            }
            guard let type = type(mutation.entity.type), type.holdsLocalIDs else { continue }
            types[entry.index] = type
            let found = type.localReferences(in: mutation.payload, on: push.deviceID)
            guard !found.isEmpty else { continue }
            // an entry with too many ids is refused because of their number
            guard found.count <= LocalReference.limit else { continue }
            guard found.count <= room else {
                crowded.insert(entry.index)
                continue
            }
            room -= found.count
            references[entry.index] = found
            for reference in found { named[reference.clientID] = reference.id }
        }
    }

    public func references(of index: Int) -> [LocalReference] {
        references.isEmpty ? [] : references[index] ?? []
    }

    /// The type of an entry's entity; nil if payloads of the type contain no local ids.
    func type(of index: Int) -> EntityType? {
        types.isEmpty ? nil : types[index]
    }
}
