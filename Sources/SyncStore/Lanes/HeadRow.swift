import Postgres
import SyncModel

/// A lane whose next head is searched for.
struct HeadRow {
    let job: Int32
    let lane: LaneKey
    let headPosition: Int64

    static let columns = Columns<HeadRow>(
        .int4("job", \.job),
        .lane(\.lane),
        .int8("head_position", \.headPosition)
    )
}
