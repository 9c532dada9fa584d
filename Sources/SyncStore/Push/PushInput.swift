import SyncModel

/// A push to be planned: what came in, and whose it is.
struct PushInput {
    let push: PushRequest
    let lane: LaneKey
    /// What the user may push; nil for any number.
    let quota: Quota?
    /// What the push names by ids of its device.
    let localIDs: PushLocalIDs

    var device: DeviceKey { DeviceKey(lane: lane, id: push.deviceID) }
}
