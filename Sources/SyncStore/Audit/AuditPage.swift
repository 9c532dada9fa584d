package import Foundation
import Postgres
import SyncModel

/// A page of the audit.
package struct AuditPage: Sendable {
    package let acts: [AuditRow]
    /// Where the next page begins; nil at the end.
    package let next: UUID?

    /// Each row has how far the scan went, and, unless no act matches, an act.
    init(_ rows: Rows, limit: Int, window: Int) throws {
        var acts: [AuditRow] = []
        var (looked, last): (Int64, UUID?) = (0, nil)
        var isCut = false
        for var row in rows {
            looked = try row.int64("looked")
            last = try row.optionalUUID("last")
            isCut = try row.bool("has_more")
            if let act = try AuditRow(&row) { acts.append(act) }
        }
        // one more than asked for shows that there are more, and so does an end before the last one
        let hasMore = acts.count > limit || isCut
        self.acts = Array(acts.prefix(limit))
        next = hasMore ? self.acts.last?.id : looked == window ? last : nil
    }
}
