import Foundation

/// The right to be the one working replica: every step renews it, and it is void once another replica has claimed it.
package struct RetentionLease: Sendable, Hashable {
    let owner: UUID
    let token: Int64
}
