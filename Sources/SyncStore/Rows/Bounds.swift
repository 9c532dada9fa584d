package import Foundation
package import SyncModel

extension UUID {
    /// The least id in PostgreSQL's order, which is by bytes.
    package static let least = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    /// The greatest id in that order.
    package static let greatest = UUID(
        uuid: (255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255)
    )
}

extension Timestamp {
    /// A thousand years before 1970, earlier than any stored time.
    ///
    /// Minus infinity has no number.
    package static let longAgo = Timestamp(microseconds: 0).adding(seconds: -31_557_600_000)
}
