import Postgres
import SyncModel

/// A user's use of the quota of mutations.
struct AllowanceRow {
    let lane: LaneKey
    let bucket: TokenBucket

    static let columns = Columns<AllowanceRow>(
        .lane(\.lane),
        .int8("missing", \.bucket.missing),
        .moment("as_of", \.bucket.asOf)
    )
}
