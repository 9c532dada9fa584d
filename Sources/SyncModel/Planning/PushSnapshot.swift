public import Foundation

/// What the store knows that bears on one push, read under the lane's lock.
public struct PushSnapshot: Sendable {
    /// The user's lane.
    public var lane = LaneState()
    /// Whether the lane's row was made for this push: the user's first.
    public var isLaneNew = false
    /// The device's highest judged number; 0 for a new device.
    public var watermark: Int64 = 0
    /// Whether the device is known.
    public var isDeviceKnown = false
    /// How many devices the user has; counted where the device is not known, and no further than the limit.
    public var deviceCount = 0
    /// UUIDs that the device's mutations named lately, and that stood for nothing.
    public var strayIDs = StrayIDs()
    /// Whether everything that the push names was looked up. Where it was not, what is absent below may be there all the
    /// same. That is enough to accept an entry, for unique indexes stop what is known after all; it is never enough to
    /// refuse one (product rule 5).
    public var isComplete = false
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
    /// Where ids lead that nothing but repetitions name, by what stands for them: ids of devices that first tries held.
    public var comparedIDs: [UUID: [ServerID]] = [:]
    /// Repetitions whose ids were too many to be looked up with the others'.
    public var uncompared: Set<Int> = []
    /// Open mutations on entities of the push.
    public var open: [OpenMutation] = []
    /// What the user has used of the quota of new mutations; nil for nothing, and where there is no quota.
    public var allowance: TokenBucket?

    /// An empty snapshot.
    public init() {}
}

extension PushSnapshot {
    /// The mapping of a client id under its type.
    public func mapping(_ name: ClientReference) -> IDMapping? {
        mappings[name.clientID]?.first { $0.entityType == name.entityType }
    }

    /// The mapping of a client id under its type, unless another create may take the client id over.
    func usableMapping(_ name: ClientReference) -> IDMapping? { mapping(name).flatMap { $0.isAbandoned ? nil : $0 } }
}
