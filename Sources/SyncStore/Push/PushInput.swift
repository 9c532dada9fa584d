import SyncModel

/// A push to be planned, with its user.
struct PushInput {
    let push: PushRequest
    let lane: LaneKey
    /// What the user may push; nil for any number.
    let quota: Quota?
    /// The local ids that the push names.
    let localIDs: PushLocalIDs

    var device: DeviceKey { DeviceKey(lane: lane, id: push.deviceID) }
}
