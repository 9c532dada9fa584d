import Foundation
import JSONText

/// The members of a mutation as they are read one by one, each nil until it is there.
struct MutationContent {
    var id: UUID?
    var idempotencyKey: UUID?
    var sequenceNumber: Int64?
    var operation: Operation?
    var entityType: String?
    /// A UUID, or a number of the device's.
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

    /// The entity, once its type is known.
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

/// The members that a mutation may have; the raw value is a bit's place in ``MutationMembers``.
enum MutationMember: UInt32 {
    case id, idempotencyKey, sequenceNumber, operation, entityType, localID, serverID, endpoint, payload, headers
    case dependencyIDs, priority, maxAttempts, conflictResolution, baseVersion, createdAt

    static let required: [MutationMember] = [
        .id, .idempotencyKey, .sequenceNumber, .operation, .entityType, .createdAt,
    ]

    var staticName: StaticString {
        switch self {
        case .id: "id"
        case .idempotencyKey: "idempotency_key"
        case .sequenceNumber: "sequence_number"
        case .operation: "operation"
        case .entityType: "entity_type"
        case .localID: "local_id"
        case .serverID: "server_id"
        case .endpoint: "endpoint"
        case .payload: "payload"
        case .headers: "headers"
        case .dependencyIDs: "dependency_ids"
        case .priority: "priority"
        case .maxAttempts: "max_attempts"
        case .conflictResolution: "conflict_resolution"
        case .baseVersion: "base_version"
        case .createdAt: "created_at"
        }
    }

    var name: String { staticName.description }

    /// Compares bytes, without making a String, with the few names of the same length.
    init?(_ name: JSONName) {
        let text = name.raw
        // an escape is never shorter than what it stands for
        let isEscaped = text.contains(0x5c)
        var place: UInt32 = 0
        while let member = MutationMember(rawValue: place) {
            place += 1
            let isCandidate = isEscaped || member.staticName.utf8CodeUnitCount == text.count - 2
            if isCandidate, name.equals(member.staticName) {
                self = member
                return
            }
        }
        return nil
    }
}

/// A set of members in one word.
struct MutationMembers {
    private var bits: UInt32 = 0

    mutating func insert(_ member: MutationMember) { bits |= 1 << member.rawValue }
    func contains(_ member: MutationMember) -> Bool { bits & 1 << member.rawValue != 0 }
}
