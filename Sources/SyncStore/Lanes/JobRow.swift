import Postgres
import SyncModel

/// A job's lane.
struct JobRow {
    let job: Int32
    let lane: LaneKey

    static let columns = Columns<JobRow>(.int4("job", \.job), .lane(\.lane))
}
