import SyncModel

struct LaneRow {
    let key: LaneKey
    let state: LaneState
}
