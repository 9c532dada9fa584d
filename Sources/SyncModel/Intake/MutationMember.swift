import JSONText

/// The members that a mutation may have.
///
/// The raw value is the bit's index in ``MutationMembers``.
enum MutationMember: UInt32, CaseIterable {
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

    static let names = allCases.map(\.name)

    /// By the lengths of their names.
    private static let byLength: [[MutationMember]] = {
        var members = [[MutationMember]](repeating: [], count: 1 + (allCases.map(\.length).max() ?? 0))
        for member in allCases { members[member.length].append(member) }
        return members
    }()

    private var length: Int { staticName.utf8CodeUnitCount }

    /// Compares bytes, without making a String, with the few names of the same length.
    init?(_ name: JSONName) {
        let candidates = name.utf8Count.map { $0 < Self.byLength.count ? Self.byLength[$0] : [] } ?? Self.allCases
        guard let member = candidates.first(where: { name.equals($0.staticName) }) else { return nil }
        self = member
    }
}
