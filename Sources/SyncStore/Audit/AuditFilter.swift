package import Foundation
package import SyncModel

/// Which acts are asked for.
package struct AuditFilter: Sendable {
    /// Nil: of all, and those that concern none.
    package var organization: UUID?
    package var actor: String?
    package var action: String?
    /// The first moment, to the millisecond.
    package var since: Timestamp?
    /// The first moment that is too late.
    package var until: Timestamp?

    package init(since: Timestamp? = nil) {
        self.since = since
    }
}
