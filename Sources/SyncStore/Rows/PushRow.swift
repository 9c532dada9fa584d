import Postgres
import SyncModel

struct PushRow {
    let push: Int
    let lane: LaneKey

    static let columns = Columns<PushRow>(.int4("push") { Int32($0.push) }, .lane(\.lane))
}
