public import FoundationEssentials
public import JSONText

/// One create, update, replace or delete, captured offline (specification 001 (docs/spec)).
///
/// Only ``MutationDecoder`` creates instances, so every instance satisfies the rules that can be checked without stored
/// data.
///
/// It is a class because it is passed often and never changes. A copy increments one reference count instead of one for
/// each member.
public final class Mutation: EntityWrite, Sendable {
    /// Unique per user (specification 001 (docs/spec), `id`).
    public let id: UUID
    /// Unique per user. The same key with the same content is a repeat.
    ///
    /// Specification 001 (docs/spec), `idempotency_key_unique_per_mutation`.
    public let idempotencyKey: UUID
    /// The position in the device's own count, 1 or more.
    public let sequenceNumber: Int64
    public let operation: Operation
    /// The entity (specifications 000 and 001 (docs/spec), `entity_type`).
    ///
    /// The client id or the server id identifies it. A client id is a UUID, or a number that the device assigned
    /// (specification 002 (docs/spec)).
    public let entity: EntityName
    /// The endpoint to which the mutation is replayed; required only for forwarded types.
    public let endpoint: Endpoint?
    /// The body as the client wrote it; nil for no body and for JSON's null.
    public let payload: JSONValue?
    /// Headers, with names in lower case.
    public let headers: JSONValue?
    /// Ids of mutations that must succeed first, or client ids of entities that must exist first.
    ///
    /// At most 500, without duplicates.
    public let dependencyIDs: [UUID]
    /// The priority, 0 to 1,000; nil means the entity type's default.
    public let priority: Int16?
    /// The maximum number of attempts, 1 to 100.
    public let maxAttempts: Int16
    /// The strategy for conflicts; nil means the organization's default.
    public let conflictResolution: ConflictResolution?
    /// The version that the client saw, 0 or more.
    public let baseVersion: Int64?
    /// Device-local time of capture. It does not affect the order; it shows how old the mutation is.
    public let createdAt: Timestamp
    /// A hash by which a repeat is recognized.
    public let fingerprint: Fingerprint
    /// Distinct UUIDs in endpoint and payload, in order of appearance.
    ///
    /// Each can be a client id.
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
        createdAt = content.createdAt ?? Timestamp(microseconds: 0)
        fingerprint = Fingerprint(of: content, operation, entity)
        references = content.references
    }
}

extension Mutation {
    /// The canonical form of the content, with replacements for some of its ids.
    ///
    /// The fingerprint is its hash.
    ///
    /// - Parameters:
    ///   - appendEntity: appends the entity's replacement.
    ///   - part: returns the replacement of a part of the endpoint.
    ///   - value: returns the replacement of a string or number of payload and headers.
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
        return canonical
    }

    /// The fingerprint with the places of device ids.
    ///
    /// It is separate from ``fingerprint``, because only the entity type determines which numbers are ids.
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

/// The members of a mutation during decoding; each is nil until it is read.
struct MutationContent {
    var id: UUID?
    var idempotencyKey: UUID?
    var sequenceNumber: Int64?
    var operation: Operation?
    var entityType: String?
    /// The client id (`local_id`): a UUID, or a number that the device assigned.
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
    var createdAt: Timestamp?

    /// The entity; nil until its entity type is known.
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

    /// Distinct UUIDs in endpoint and payload, in order of appearance.
    var references: [UUID] {
        let all = (endpoint?.uuids ?? []) + (payload?.uuids ?? [])
        guard all.count > 1 else { return all }
        var seen = Set<UUID>(minimumCapacity: all.count)
        return all.filter { seen.insert($0).inserted }
    }
}

/// The limits of a push; each is a setting.
public struct IntakeLimits: Sendable, Hashable {
    /// `SLUICE_MAX_MUTATIONS`.
    public var mutations = 500
    /// `SLUICE_MAX_BODY_BYTES`.
    public var bodyBytes = 4_194_304
    /// `SLUICE_MAX_PAYLOAD_BYTES`.
    public var payloadBytes = 262_144
    /// The maximum nesting of a payload.
    public var payloadDepth = 64
    /// The maximum number of ids in `dependency_ids` of one mutation.
    public var dependencies = 500

    public init() {}
}
