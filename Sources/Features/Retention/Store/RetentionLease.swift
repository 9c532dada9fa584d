package import Foundation
import SyncModel
import SyncStore

/// The right to be the one working replica: every step renews it, and it is void once another replica has claimed it.
package struct RetentionLease: WorkItem, Hashable {
    let owner: UUID
    let token: Int64

    /// A run is of all organizations.
    package var organization: UUID { AuditAct.noOrganization }
}
