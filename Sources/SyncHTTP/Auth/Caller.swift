import Foundation
import SyncModel

/// The authenticated sender of a request.
struct Caller: Sendable {
    let organization: Organization
    let user: UUID
    /// When the token expires, in seconds since 1970.
    let expiresAt: Int64
}
