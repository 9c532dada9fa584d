import Postgres
import SyncModel

struct JobRow {
    let job: Int32
    let lane: LaneKey

    static let columns = Columns<JobRow>(.int4("job", \.job), .lane(\.lane))
}
