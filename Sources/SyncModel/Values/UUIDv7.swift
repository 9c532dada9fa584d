public import Foundation
import Synchronization

/// Makes time-ordered UUIDs (RFC 9562, version 7).
///
/// 48 bits of milliseconds, then 74 random bits.
public final class UUIDv7Generator: Sendable {
    private let random = RandomBytePool()

    public init() {}

    public func make(at now: Timestamp) -> UUID {
        let (high, low) = random.pair()
        return Self.assemble(UInt64(max(0, now.microseconds / 1_000)), high, low)
    }

    /// The least id of a moment's millisecond: ids made before are less.
    public static func least(at moment: Timestamp) -> UUID {
        assemble(UInt64(max(0, moment.microseconds / 1_000)), 0, 0)
    }

    private static func assemble(_ millis: UInt64, _ high: UInt64, _ low: UInt64) -> UUID {
        func byte(_ word: UInt64, _ shift: UInt64) -> UInt8 { UInt8(truncatingIfNeeded: word >> shift) }
        return UUID(
            uuid: (
                byte(millis, 40), byte(millis, 32), byte(millis, 24), byte(millis, 16), byte(millis, 8),
                byte(millis, 0),
                0x70 | byte(high, 0) & 0x0f, byte(high, 8),
                0x80 | byte(high, 16) & 0x3f, byte(high, 24), byte(low, 0), byte(low, 8),
                byte(low, 16), byte(low, 24), byte(low, 32), byte(low, 40)
            )
        )
    }
}

/// Makes version 7 UUIDs each of which is greater than those before it.
///
/// RFC 9562, 6.2, method 2; also within a millisecond and after a clock that went back a little. For ids that order
/// events; they can be guessed from one another.
public final class OrderedUUIDs: Sendable {
    /// Milliseconds that the clock may go back before the order begins again.
    private static let timeout: Int64 = 10_000

    private let generator = UUIDv7Generator()
    private let last = Mutex<(millis: Int64, id: UUID)?>(nil)

    public init() {}

    public func make(at now: Timestamp) -> UUID {
        let millis = max(0, now.microseconds / 1_000)
        return last.withLock { last in
            if let (before, id) = last, (before - Self.timeout...before).contains(millis), let next = id.successor {
                last = (before, next)
                return next
            }
            let id = generator.make(at: now)
            last = (millis, id)
            return id
        }
    }
}
