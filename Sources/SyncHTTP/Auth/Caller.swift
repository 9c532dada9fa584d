import Foundation
import SyncModel

/// Who a request comes from, once that is settled.
struct Caller: Sendable {
    let organization: Organization
    let user: UUID
    /// When the token ends, in seconds since 1970.
    let expiresAt: Int64
}
