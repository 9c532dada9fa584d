import Foundation
import SyncModel
import Synchronization

/// Ids of acts in the order in which they are made here.
///
/// The audit is read in this order, so it also applies within one millisecond.
final class AuditIDs: Sendable {
    private let generator = UUIDv7Generator()
    private let last = Mutex(UUID.least)

    func make(at now: Timestamp) -> UUID {
        let id = generator.make(at: now)
        return last.withLock { last in
            // after a clock was set back, ids continue from its time
            let isLess = id <= last && UUIDv7Generator.least(at: now) <= last && last < Self.next(now)
            last = isLess ? last.successor ?? id : id
            return last
        }
    }

    private static func next(_ now: Timestamp) -> UUID { UUIDv7Generator.least(at: now.adding(seconds: 0.001)) }
}
