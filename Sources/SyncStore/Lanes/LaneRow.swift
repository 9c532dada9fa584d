package import SyncModel

package struct LaneRow {
    let key: LaneKey
    package let state: LaneState
}
