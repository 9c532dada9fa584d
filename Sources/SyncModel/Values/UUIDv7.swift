public import Foundation
import Synchronization

/// Makes time-ordered UUIDs (RFC 9562, version 7): 48 bits of milliseconds, then 74 random bits.
///
/// It draws random bytes from the system a few hundred ids at a time, since each draw is a system call.
public final class UUIDv7Generator: Sendable {
    private static let refill = 512
    /// Random words that were drawn and not used yet.
    private let reserve = Mutex([UInt64]())

    public init() {}

    public func make(at now: Timestamp) -> UUID {
        let (high, low) = reserve.withLock { words in
            if words.count < 2 {
                var system = SystemRandomNumberGenerator()
                words = [UInt64](unsafeUninitializedCapacity: Self.refill) { buffer, count in
                    let bytes = UnsafeMutableRawBufferPointer(buffer)
                    system.fill(bytes)
                    count = Self.refill
                }
            }
            return (words.removeLast(), words.removeLast())
        }
        return Self.assemble(UInt64(max(0, now.microseconds / 1_000)), high, low)
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

extension SystemRandomNumberGenerator {
    /// Fills a buffer in as few system calls as possible.
    fileprivate mutating func fill(_ bytes: UnsafeMutableRawBufferPointer) {
        var filled = 0
        while filled < bytes.count {
            // getentropy hands out 256 bytes at most
            let part = min(256, bytes.count - filled)
            guard let start = bytes.baseAddress, getentropy(start + filled, part) == 0 else {
                // not seen in practice; the slow way is as good
                for index in filled..<bytes.count { bytes[index] = UInt8(truncatingIfNeeded: next()) }
                return
            }
            filled += part
        }
    }
}
