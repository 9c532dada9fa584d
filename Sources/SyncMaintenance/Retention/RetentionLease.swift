import Foundation

/// The right to be the one replica that works: it is renewed with every step, and void once another has claimed it.
package struct RetentionLease: Sendable, Hashable {
    let owner: UUID
    let token: Int64
}
