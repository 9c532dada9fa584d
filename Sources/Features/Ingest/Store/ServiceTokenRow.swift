package import Foundation
package import Postgres
package import SyncModel
import SyncStore

/// A service token as operators see it: without its secret.
package struct ServiceTokenRow: Sendable, Hashable {
    package let id: UUID
    @Exact package private(set) var source: String
    package let createdAt: Timestamp
    /// To the minute; nil while it was never used.
    package let lastUsedAt: Timestamp?
    package let revokedAt: Timestamp?

    package static let list = "t.id, t.source, t.created_at, t.last_used_at, t.revoked_at"

    package init(_ row: inout RowReader) throws {
        id = try row.uuid("id")
        source = try row.string("source")
        createdAt = try row.moment("created_at")
        lastUsedAt = try row.optionalMoment("last_used_at")
        revokedAt = try row.optionalMoment("revoked_at")
    }
}
