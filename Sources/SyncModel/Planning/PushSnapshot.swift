public import Foundation

/// A mutation that is not final and touches an entity of the push.
public struct OpenMutation: Sendable {
    /// The mutation's id.
    public let id: UUID
    /// Type of its entity.
    public let entityType: String
    /// Client id of its entity, when that is how it was named.
    public let localID: UUID?
    /// Server id of its entity, when that was known.
    public let serverID: ServerID?
    /// Place in the lane.
    public let position: Int64

    /// Creates the value.
    public init(id: UUID, entityType: String, localID: UUID?, serverID: ServerID?, position: Int64) {
        self.id = id
        self.entityType = entityType
        self.localID = localID
        self.serverID = serverID
        self.position = position
    }
}

/// What the store knows that bears on one push, read under the lane's lock.
public struct PushSnapshot: Sendable {
    /// The user's lane.
    public var lane = LaneState()
    /// The device's highest judged number; 0 for a new device.
    public var watermark: Int64 = 0
    /// Keys that were looked up: for the others, absence below is no knowledge.
    public var probedKeys: Set<UUID> = []
    /// Known mutations by idempotency key.
    public var knownByKey: [UUID: MutationRecord] = [:]
    /// Known mutations by id.
    public var knownByID: [UUID: MutationRecord] = [:]
    /// Refused entries by idempotency key.
    public var rejections: [UUID: Rejection] = [:]
    /// Mappings of this user by client id; more than one where types share it.
    public var mappings: [UUID: [IDMapping]] = [:]
    /// What the push names by ids of its device.
    public var localIDs = PushLocalIDs()
    /// Ids of the device that a mutation waiting for its turn can be sent with.
    public var pinnedIDs: Set<UUID> = []
    /// Ids that a pull assigned and that only this push confirms, if it takes effect.
    public var tentativeIDs: [UUID: ServerID] = [:]
    /// Open mutations on entities of the push.
    public var open: [OpenMutation] = []
    /// What the user has used of the quota of new mutations; nil for nothing, and where there is no quota.
    public var allowance: TokenBucket?

    /// An empty snapshot.
    public init() {}
}

extension PushSnapshot {
    /// The mapping of a client id under one type.
    func mapping(_ clientID: UUID, type: String) -> IDMapping? {
        mappings[clientID]?.first { $0.entityType == type }
    }

    /// The mapping of a client id under one type, unless another create may take the client id over.
    func usableMapping(_ clientID: UUID, type: String) -> IDMapping? {
        mapping(clientID, type: type).flatMap { $0.isAbandoned ? nil : $0 }
    }

    /// Whether a given UUID may stand where a stored one stood: they are mapped to each other for this user, or both are
    /// names of the entity of the mutation itself.
    func areEquivalent(_ first: UUID, _ second: UUID, in record: MutationRecord) -> Bool {
        func maps(_ client: UUID, to server: UUID) -> Bool {
            mappings[client]?.contains { $0.serverID?.uuid == server } ?? false
                || (client == record.localID && server == record.serverID?.uuid)
        }
        return maps(first, to: second) || maps(second, to: first)
    }

    /// Client ids whose mappings are needed to compare repeated entries with what is stored, beyond those that the
    /// push itself names.
    public func identifiersToCompare(_ entries: [PushEntry]) -> [UUID] {
        entries.flatMap { entry -> [UUID] in
            guard let mutation = entry.mutation, let known = knownByKey[mutation.idempotencyKey],
                let differences = known.fingerprint.differences(from: mutation.fingerprint)
            else { return [] }
            return differences.flatMap { [$0.stored, $0.given] }
        }
    }
}
