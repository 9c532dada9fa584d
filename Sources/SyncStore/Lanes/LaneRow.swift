import SyncModel

/// A lane with its key.
struct LaneRow {
    let key: LaneKey
    let state: LaneState
}
