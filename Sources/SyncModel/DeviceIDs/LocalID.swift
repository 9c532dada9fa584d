import Crypto
public import FoundationEssentials
public import JSONText

/// The id of an entity on one device, for types with device ids (specification 002 (docs/spec)).
///
/// A 64-bit integer from the device's own counter. On another device the same number means another entity, and the same
/// entity has another number.
public struct LocalID: Sendable, Hashable, Comparable {
    @Exact public private(set) var entityType: String
    /// Any 64-bit integer; devices count from 1.
    public let number: Int64

    public init(entityType: String, number: Int64) {
        self.entityType = entityType
        self.number = number
    }

    /// The UUID that represents this id where the gateway uses client ids.
    ///
    /// The gateway uses it in look-ups, dependencies, and the mutations that a blocked one waits for. A hash of device,
    /// type and number, so that every gateway computes the same; no client sees it. A UUID of version 8 (RFC 9562,
    /// 5.8).
    public func clientID(on device: UUID) -> UUID { hash(on: device) }

    /// The UUID under which a mapping keeps the server id of a deleted entity.
    ///
    /// Only comparisons of repetitions find that mapping, so the device may use the number again. A hash like
    /// ``clientID(on:)``, behind a prefix.
    public func retiredID(on device: UUID) -> UUID { hash(on: device, prefix: Self.retiredPrefix) }

    /// The ASCII letters in front of what ``retiredID(on:)`` hashes.
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

    /// By type, then by number: the order of the rows' key.
    public static func < (left: LocalID, right: LocalID) -> Bool {
        (left.entityType, left.number) < (right.entityType, right.number)
    }

    /// The id as problems name it.
    var words: String { "local id \(number) in '\(entityType)'" }
}

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

/// The device ids in a push: in relations, and of the entities that it writes.
public struct PushLocalIDs: Sendable {
    /// Ids that the relations of one push may hold: bounds the size of one look-up.
    public static let limit = 20_000

    /// The references of an entry, by the entry's index.
    ///
    /// Entries without references are left out.
    private var references: [Int: [LocalReference]] = [:]
    /// Types of the entries whose relations may hold device ids, by the entry's index.
    private var types: [Int: EntityType] = [:]
    /// Entries that exceed ``limit`` together with the entries before them.
    private(set) var crowded: Set<Int> = []
    /// Every device id in the push, by the client id that represents it.
    ///
    /// Includes those of creates.
    public private(set) var named: [UUID: LocalID] = [:]
    /// The device ids of creates.
    ///
    /// The device did not apply a pull that assigned one of these ids.
    public private(set) var created: Set<UUID> = []

    /// A push without device ids.
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
            // an entry that holds too many by itself is refused for that
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

    /// The type of an entry's entity, where its payloads may hold device ids.
    func type(of index: Int) -> EntityType? {
        types.isEmpty ? nil : types[index]
    }
}
