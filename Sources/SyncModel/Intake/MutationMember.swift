import JSONText

/// The members that a mutation may have; the raw value is the bit's index in ``MutationMembers``.
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
        // an escape is never shorter than the character that it encodes
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
