package import Foundation
package import SyncModel

extension UUID {
    /// The least id, as PostgreSQL orders them: by bytes.
    package static let least = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    /// The greatest.
    static let greatest = UUID(
        uuid: (255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255)
    )
}

extension Timestamp {
    /// A thousand years before 1970, and before anything of ours: minus infinity has no number.
    package static let longAgo = Timestamp(microseconds: 0).adding(seconds: -31_557_600_000)
}
