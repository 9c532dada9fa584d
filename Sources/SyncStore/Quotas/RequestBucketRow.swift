import Foundation
import Postgres
import SyncModel

/// An organization's use of its quota of requests.
struct RequestBucketRow {
    let organization: UUID
    let bucket: TokenBucket

    static let columns = Columns<RequestBucketRow>(
        .uuid("organization_id", \.organization),
        .int8("missing", \.bucket.missing),
        .moment("as_of", \.bucket.asOf)
    )
}
