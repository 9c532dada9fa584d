public import FoundationEssentials
public import JSONText

/// One create, update, replace or delete that a device captured (specification 001 (docs/spec)).
///
/// Every instance satisfies the rules that can be checked without stored data, because only ``MutationDecoder`` creates
/// instances.
///
/// The type is a class because mutations are passed often and never change. A copy of the reference increments only one
/// reference count. A copy of a struct would increment a reference count for each member.
public final class Mutation: EntityWrite, Sendable {
    /// The mutation's id, which is unique for the user (specification 001 (docs/spec), `id`).
    public let id: UUID
    /// The idempotency key, which is unique for the user. A mutation with the same key and content is a repeat.
    ///
    /// See specification 001 (docs/spec), `idempotency_key_unique_per_mutation`.
    public let idempotencyKey: UUID
    /// The mutation's number from the device's counter, at least 1.
    public let sequenceNumber: Int64
    public let operation: Operation
    /// The entity (specifications 000 and 001 (docs/spec), `entity_type`).
    ///
    /// The entity is identified by its client id or its server id. The client id is a UUID or a local id (specification
    /// 002 (docs/spec)).
    public let entity: EntityName
    /// The endpoint to which the mutation is replayed. The endpoint is required only for forwarded types.
    public let endpoint: Endpoint?
    /// The body as the client wrote it; nil if the body is missing or null.
    public let payload: JSONValue?
    /// The mutation's headers, with names in lower case.
    public let headers: JSONValue?
    /// The ids of mutations that must succeed first, and the client ids of entities that must exist first.
    ///
    /// At most 500, without duplicates.
    public let dependencyIDs: [UUID]
    /// The priority, from 0 to 1,000; nil for the default of the entity type.
    public let priority: Int16?
    /// The maximum number of attempts, from 1 to 100.
    public let maxAttempts: Int16
    /// The strategy for conflicts; nil for the organization's default.
    public let conflictResolution: ConflictResolution?
    /// The version of the entity on which the client based the mutation, at least 0.
    public let baseVersion: Int64?
    /// The order key, of 1 to ``OrderKey/maximumBytes`` bytes; nil for none. With the setting `order: dependencies`,
    /// mutations with the same key keep their order (product rule 3).
    public let orderKey: String?
    /// When the mutation was captured, according to the device's clock. This time shows the age of the mutation, and
    /// does not affect the order.
    public let createdAt: Timestamp
    /// The hash with which the gateway recognizes a repeat.
    public let fingerprint: Fingerprint
    /// The UUIDs in the endpoint and the payload, in order of appearance and without duplicates.
    ///
    /// Each of these UUIDs can be a client id.
    public let references: [UUID]

    /// Creates a mutation; nil if a required member is missing.
    init?(_ content: MutationContent, _ entity: EntityName?) {
        guard let id = content.id, let idempotencyKey = content.idempotencyKey, let entity,
            let sequenceNumber = content.sequenceNumber, let operation = content.operation
        else { return nil }
        self.id = id
        self.idempotencyKey = idempotencyKey
        self.sequenceNumber = sequenceNumber
        self.operation = operation
        self.entity = entity
        endpoint = content.endpoint
        payload = content.payload
        headers = content.headers
        dependencyIDs = content.dependencyIDs
        priority = content.priority
        maxAttempts = content.maxAttempts
        conflictResolution = content.conflictResolution
        baseVersion = content.baseVersion
        orderKey = content.orderKey
        createdAt = content.createdAt ?? Timestamp(microseconds: 0)
        fingerprint = Fingerprint(of: content, operation, entity)
        references = content.references
    }
}

extension Mutation {
    /// The canonical form of the content, with replacements for some of its ids.
    ///
    /// The fingerprint contains the hash of this form.
    ///
    /// - Parameters:
    ///   - appendEntity: appends the entity's replacement.
    ///   - part: returns the replacement of a part of the endpoint.
    ///   - value: returns the replacement of a string or number in the payload or the headers.
    func canonicalForm(
        entity appendEntity: (inout [UInt8]) -> Void,
        part: (ArraySlice<UInt8>, UUID?, Int) -> Endpoint.CanonicalPart?,
        value: (JSONValue, Int) -> CanonicalReplacement?
    ) -> [UInt8] {
        var canonical = Fingerprint.head(operation, entity.type, room: 512 + (payload?.rawCount ?? 0))
        appendEntity(&canonical)
        canonical.append(0)
        endpoint?.appendCanonical(to: &canonical, replacing: part)
        canonical.append(0)
        payload?.appendCanonical(to: &canonical, replacing: value)
        canonical.append(0)
        headers?.appendCanonical(to: &canonical, replacing: value)
        canonical.append(0)
        if let baseVersion { canonical += String(baseVersion).utf8 }
        Fingerprint.append(orderKey: orderKey, to: &canonical)
        return canonical
    }

    /// The fingerprint with the places of local ids.
    ///
    /// This fingerprint is made later than ``fingerprint``, because the entity type must be known to decide which
    /// numbers are ids.
    func fingerprint(noting references: [LocalReference]) -> Fingerprint {
        guard !references.isEmpty else { return fingerprint }
        let numbers = Dictionary(references.map { ($0.place.value.offset, $0.id.number) }) { first, _ in first }
        var places = IDPlaces()
        _ = canonicalForm(
            entity: { Fingerprint.append(entity, to: &$0) },
            part: { _, uuid, offset in
                guard uuid != nil else { return nil }
                places.append(IDPlaces.Place(offset: offset))
                return .identifier(length: Endpoint.uuidBytes)
            },
            value: { value, offset in
                if value.uuid != nil {
                    places.append(IDPlaces.Place(offset: offset))
                    return .identifier
                }
                if let number = numbers[value.offset] {
                    places.append(IDPlaces.Place(offset: offset, number: number))
                }
                return nil
            }
        )
        return Fingerprint(digest: fingerprint.digest, identifiers: fingerprint.identifiers, places: places.stored)
    }
}

/// The members of a mutation during decoding. A member is nil until it is read.
struct MutationContent {
    var id: UUID?
    var idempotencyKey: UUID?
    var sequenceNumber: Int64?
    var operation: Operation?
    var entityType: String?
    /// The client id (`local_id`), which is a UUID, or an integer that the device assigned.
    var localID: JSONValue?
    var serverID: ServerID?
    var endpoint: Endpoint?
    var payload: JSONValue?
    var headers: JSONValue?
    var dependencyIDs: [UUID] = []
    var priority: Int16?
    var maxAttempts: Int16 = 10
    var conflictResolution: ConflictResolution?
    var baseVersion: Int64?
    var orderKey: String?
    var createdAt: Timestamp?

    /// The entity; nil until the entity type is known.
    func entity(on device: UUID) -> EntityName? {
        guard let entityType else { return nil }
        let client =
            if let number = localID?.int64 {
                LocalID(entityType: entityType, number: number).name(on: device)
            } else {
                localID?.uuid.map(ClientName.id)
            }
        return EntityName(type: entityType, client: client, serverID: serverID)
    }

    /// The UUIDs in the endpoint and the payload, in order of appearance and without duplicates.
    var references: [UUID] {
        let all = (endpoint?.uuids ?? []) + (payload?.uuids ?? [])
        guard all.count > 1 else { return all }
        var seen = Set<UUID>(minimumCapacity: all.count)
        return all.filter { seen.insert($0).inserted }
    }
}

/// The rules for order keys.
public enum OrderKey {
    public static let maximumBytes = 128

    /// Whether a text may be an order key: 1 to 128 bytes, without control characters.
    public static func isValid(_ text: String) -> Bool {
        let bytes = text.utf8
        return (1...maximumBytes).contains(bytes.count) && bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7f }
    }
}

/// The limits of a push. Operators can set some of them.
public struct IntakeLimits: Sendable, Hashable {
    /// The maximum number of mutations (`SLUICE_MAX_MUTATIONS`).
    public var mutations = 500
    /// The maximum size of the body in bytes (`SLUICE_MAX_BODY_BYTES`).
    public var bodyBytes = 4_194_304
    /// The maximum size of a payload in bytes (`SLUICE_MAX_PAYLOAD_BYTES`).
    public var payloadBytes = 262_144
    /// The maximum nesting of a payload.
    public var payloadDepth = 64
    /// The maximum number of ids in the `dependency_ids` of a mutation.
    public var dependencies = 500

    public init() {}
}
