import Postgres
import SyncModel

/// What a user has used of the quota of mutations.
struct AllowanceRow {
    let lane: LaneKey
    let bucket: TokenBucket

    static let columns = Columns<AllowanceRow>(
        .lane(\.lane),
        .int8("missing", \.bucket.missing),
        .moment("as_of", \.bucket.asOf)
    )
}
