public import FoundationEssentials

/// The stored data on which a push depends, read under the lane's lock.
public struct PushSnapshot: Sendable {
    public var lane = LaneState()
    /// Whether the lane's row was created for this push, which is the user's first push.
    public var isLaneNew = false
    /// The device's watermark, which is the highest sequence number that was evaluated; 0 for a new device.
    public var watermark: Int64 = 0
    public var isDeviceKnown: Bool { deviceSeenAt != nil }
    /// When the device's last activity was recorded; nil for a new device.
    public var deviceSeenAt: Timestamp?
    /// The number of the user's devices, counted up to the limit.
    ///
    /// Nil if the device was found in the cache. In this case the devices were not counted.
    public var deviceCount: Int?
    /// Whether the data is sufficient to decide if the device may push.
    public var isDeviceRead: Bool { isDeviceKnown || deviceCount != nil }
    /// The UUIDs that matched no client id in the device's recent mutations.
    public var unresolvedIDs = UnresolvedIDHistory()
    /// Whether every key, id and client id in the push was looked up.
    ///
    /// If false, rows that are missing from this snapshot may exist. An incomplete snapshot is sufficient to accept an
    /// entry, because unique indexes detect an existing row. An incomplete snapshot is never sufficient to refuse an
    /// entry (product rule 5).
    public var isComplete = false
    /// Known mutations by idempotency key.
    public var knownByKey: [UUID: MutationRecord] = [:]
    /// Known mutations by id.
    public var knownByID: [UUID: MutationRecord] = [:]
    /// Refused entries by idempotency key.
    public var rejections: [UUID: Rejection] = [:]
    /// The user's mappings, by client id. A client id has several mappings if it occurs in several entity types.
    public var mappings: [UUID: [IDMapping]] = [:]
    /// The local ids that the push contains. A local id is an entity's number on one device.
    public var localIDs = PushLocalIDs()
    /// The UUIDs that represent local ids in stored mutations that wait (``PushPlan/pinnedIDs``).
    public var pinnedIDs: Set<UUID> = []
    /// The server ids of local ids that a pull assigned, and that are not confirmed yet, by the UUID that represents
    /// the local id.
    ///
    /// If this push takes effect, it confirms the ids that it uses.
    public var tentativeIDs: [UUID: ServerID] = [:]
    /// The server ids of local ids that are needed only to compare repeats, by the UUID that represents the local id.
    ///
    /// These local ids occur only in first attempts, or identify deleted entities.
    public var comparedIDs: [UUID: [ServerID]] = [:]
    /// The indices of repeats that are not compared in this push, because too many ids would have to be looked up.
    public var uncompared: Set<Int> = []
    /// The stored mutations that are not final, and that write entities of the push.
    public var open: [OpenMutation] = []
    /// For each order key of the push, the latest stored mutation with this key that is not final.
    public var openOrderKeys: [ByteExactString: UUID] = [:]
    /// The user's usage of the mutation quota.
    ///
    /// Nil if the user has used no quota, or if there is no quota.
    public var allowance: TokenBucket?

    public init() {}
}

extension PushSnapshot {
    /// The interval in seconds at which activity without other changes is recorded.
    ///
    /// Without this interval, each repeat would need a write.
    public static let sightingInterval: Double = 60

    /// Whether to record the activity of a known device for a push that changes nothing else.
    public func shouldRecordLastSeen(at now: Timestamp) -> Bool {
        deviceSeenAt.map { $0.adding(seconds: Self.sightingInterval) <= now } ?? false
    }

    public func mapping(_ name: ClientReference) -> IDMapping? {
        mappings[name.clientID]?.first { $0.entityType == name.entityType }
    }

    /// The mapping of a client id in its entity type.
    ///
    /// Nil if there is no mapping, or if another create may use the client id because the first create was discarded.
    func usableMapping(_ name: ClientReference) -> IDMapping? { mapping(name).flatMap { $0.isAbandoned ? nil : $0 } }
}

/// Ids that must be looked up to compare repeats with their first attempts.
///
/// Ids that the push itself contains are looked up separately.
public struct ComparedIDs: Sendable {
    /// The maximum number of ids that are looked up for one push.
    public static let limit = 20_000

    /// A local id, together with its device. This device need not be the device that sends the push.
    public struct OfDevice: Sendable, Hashable {
        public let device: UUID
        public let id: LocalID
    }

    /// The client ids, and the UUIDs that may be client ids.
    public fileprivate(set) var clientIDs: Set<UUID> = []
    public fileprivate(set) var localIDs: Set<OfDevice> = []

    public var isEmpty: Bool { clientIDs.isEmpty && localIDs.isEmpty }
    fileprivate var count: Int { clientIDs.count + localIDs.count }
}

extension PushSnapshot {
    /// Returns the ids to look up before repeats can be compared with first attempts that have other ids.
    ///
    /// Repeats with too many ids are recorded as ``uncompared``. The client must send these entries again in a smaller
    /// push.
    public mutating func idsToCompare(_ push: PushRequest) -> ComparedIDs {
        var ids = ComparedIDs()
        uncompared = []
        guard !knownByKey.isEmpty else { return ids }
        for entry in push.entries {
            guard let mutation = entry.content, let known = knownByKey[mutation.idempotencyKey] else {
                continue
            }
            let first = FirstAttempt(known)
            guard !first.isWritten(as: mutation), first.canBe(mutation) else { continue }
            let more = missing(excluding: ids, first, mutation, at: entry.index, by: push.deviceID)
            guard ids.count + more.count <= ComparedIDs.limit else {
                uncompared.insert(entry.index)
                continue
            }
            ids.clientIDs.formUnion(more.clientIDs)
            ids.localIDs.formUnion(more.localIDs)
        }
        return ids
    }

    private func missing(
        excluding known: ComparedIDs,
        _ first: FirstAttempt,
        _ given: Mutation,
        at index: Int,
        by device: UUID
    ) -> ComparedIDs {
        var ids = ComparedIDs()
        let differences = first.fingerprint.differences(from: given.fingerprint)
        var identifiers = differences.map { $0.flatMap { [$0.stored, $0.given] } } ?? first.fingerprint.identifiers
        if !first.isKnown(given.entity), let id = first.entity.clientID { identifiers.append(id) }
        for id in identifiers where mappings[id] == nil && localIDs.named[id] == nil {
            if case .number(_, id)? = first.entity.client { continue }
            if !known.clientIDs.contains(id) { ids.clientIDs.insert(id) }
        }
        func add(_ id: LocalID, of device: UUID) {
            let clientID = id.clientID(on: device)
            guard mappings[clientID] == nil, comparedIDs[clientID] == nil else { return }
            let id = ComparedIDs.OfDevice(device: device, id: id)
            if !known.localIDs.contains(id) { ids.localIDs.insert(id) }
        }
        if let own = first.entity.localID { add(own, of: first.device) }
        // the ids of the push's own entities are looked up separately
        if let own = given.entity.localID { add(own, of: device) }
        guard differences == nil, let type = localIDs.type(of: index), let places = first.fingerprint.layout?.places
        else { return ids }
        for reference in localIDs.references(of: index) { add(reference.id, of: device) }
        let types = Set<ByteExactString>(type.relations.lazy.filter { $0.idSpace == .device }.map(\.entityType))
        for number in places.lazy.compactMap(\.number) {
            for type in types where ids.count <= ComparedIDs.limit {
                add(LocalID(entityType: type.string, number: number), of: first.device)
            }
        }
        return ids
    }

    func isRepetition(_ mutation: Mutation, at index: Int, by device: UUID, of first: FirstAttempt) -> Bool {
        if first.isWritten(as: mutation) { return first.id == mutation.id }
        let knowledge = ContentComparison.Knowledge(
            serverIDs: { id in (mappings[id] ?? []).compactMap(\.serverID) + (comparedIDs[id] ?? []) },
            isKnown: {
                let id = $0.clientID(on: device)
                return mappings[id] != nil || comparedIDs[id] != nil
            }
        )
        return ContentComparison(first, mutation, by: device, type: localIDs.type(of: index), knowledge).isSame
    }
}

extension FirstAttempt {
    /// Whether a second attempt is identical to this mutation, including the ids.
    func isWritten(as mutation: Mutation) -> Bool {
        fingerprint.digest == mutation.fingerprint.digest && fingerprint.identifiers == mutation.fingerprint.identifiers
            && isKnown(mutation.entity)
    }

    /// Whether the first attempt had the server id that the second attempt has in addition to a client id. True if the
    /// second attempt does not have both ids.
    ///
    /// This comparison is necessary because a fingerprint contains only one id of the entity. If the attempt had two
    /// ids, the fingerprint contains the client id.
    func isKnown(_ given: EntityName) -> Bool {
        given.client == nil || given.serverID == nil || given.serverID == entity.serverID
    }

    /// Whether the second attempt can be a repeat of this mutation.
    func canBe(_ mutation: Mutation) -> Bool {
        id == mutation.id && operation == mutation.operation && entity.type == mutation.entity.type
    }
}
