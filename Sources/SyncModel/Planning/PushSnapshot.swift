public import Foundation

/// The stored data that a push depends on, read under the lane's lock.
public struct PushSnapshot: Sendable {
    public var lane = LaneState()
    /// Whether the lane's row was made for this push: the user's first.
    public var isLaneNew = false
    /// The device's highest judged number; 0 for a new device.
    public var watermark: Int64 = 0
    public var isDeviceKnown: Bool { deviceSeenAt != nil }
    /// The device's last recorded activity; nil for a new device.
    public var deviceSeenAt: Timestamp?
    /// How many devices the user has, up to the limit.
    ///
    /// Nil where the device was cached, and they were not counted.
    public var deviceCount: Int?
    /// Whether enough was read to decide if the device may push.
    public var isDeviceRead: Bool { isDeviceKnown || deviceCount != nil }
    /// UUIDs that the device's recent mutations named, and that matched no client id.
    public var unresolvedIDs = UnresolvedIDHistory()
    /// Whether everything that the push names was looked up.
    ///
    /// If not, rows that are absent below may exist. That is enough to accept an entry, since unique indexes catch an
    /// existing row; it is never enough to refuse one (product rule 5).
    public var isComplete = false
    /// Known mutations by idempotency key.
    public var knownByKey: [UUID: MutationRecord] = [:]
    /// Known mutations by id.
    public var knownByID: [UUID: MutationRecord] = [:]
    /// Refused entries by idempotency key.
    public var rejections: [UUID: Rejection] = [:]
    /// Mappings of this user by client id; more than one where types share it.
    public var mappings: [UUID: [IDMapping]] = [:]
    /// The device ids that the push names.
    public var localIDs = PushLocalIDs()
    /// Device ids whose server ids a waiting mutation can find already.
    public var pinnedIDs: Set<UUID> = []
    /// Ids that a pull assigned and that only this push confirms, if it takes effect.
    public var tentativeIDs: [UUID: ServerID] = [:]
    /// The server ids of ids that only repetitions name, by client id.
    ///
    /// They are device ids in first tries.
    public var comparedIDs: [UUID: [ServerID]] = [:]
    /// Repetitions with too many ids to look them up with the others'.
    public var uncompared: Set<Int> = []
    /// Open mutations on entities of the push.
    public var open: [OpenMutation] = []
    /// The user's usage of the mutation quota.
    ///
    /// Nil without usage, and where there is no quota.
    public var allowance: TokenBucket?

    public init() {}
}

extension PushSnapshot {
    /// How often activity without other changes is recorded, in seconds.
    ///
    /// So a repetition usually costs no write.
    public static let sightingInterval: Double = 60

    /// Whether to record a push of a known device that changes nothing else.
    public func shouldRecordLastSeen(at now: Timestamp) -> Bool {
        deviceSeenAt.map { $0.adding(seconds: Self.sightingInterval) <= now } ?? false
    }

    public func mapping(_ name: ClientReference) -> IDMapping? {
        mappings[name.clientID]?.first { $0.entityType == name.entityType }
    }

    /// The mapping of a client id in its type.
    ///
    /// Nil if another create may take over the client id.
    func usableMapping(_ name: ClientReference) -> IDMapping? { mapping(name).flatMap { $0.isAbandoned ? nil : $0 } }
}
