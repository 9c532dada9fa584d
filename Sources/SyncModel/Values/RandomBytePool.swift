import Foundation
import Synchronization

/// Random words of the system.
///
/// Drawn a few hundred at a time, since each draw is a system call.
final class RandomBytePool: Sendable {
    private static let refill = 512
    /// Words that were drawn and not used yet.
    private let words = Mutex([UInt64]())

    func pair() -> (UInt64, UInt64) {
        words.withLock { words in
            if words.count < 2 { words = Self.draw() }
            return (words.removeLast(), words.removeLast())
        }
    }

    private static func draw() -> [UInt64] {
        var system = SystemRandomNumberGenerator()
        return [UInt64](unsafeUninitializedCapacity: refill) { buffer, count in
            system.fill(UnsafeMutableRawBufferPointer(buffer))
            count = refill
        }
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
