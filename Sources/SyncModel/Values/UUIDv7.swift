import Crypto
public import FoundationEssentials
import Glibc
import Synchronization

/// Generates time-ordered UUIDs (RFC 9562, version 7).
///
/// Such a UUID has 48 bits for the time in milliseconds, and 74 random bits.
public final class UUIDv7Generator: Sendable {
    private let random = RandomBytePool()

    public init() {}

    public func make(at now: Timestamp) -> UUID {
        let (high, low) = random.pair()
        return Self.assemble(UInt64(max(0, now.microseconds / 1_000)), high, low)
    }

    /// The smallest id of a given millisecond. The ids of earlier milliseconds are smaller.
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

/// Generates UUIDs of version 7, each greater than all previous UUIDs.
///
/// The generator uses method 2 of RFC 9562, 6.2. The order is also correct within a millisecond, and after the clock
/// was set back slightly. Use this generator for ids that determine an order. Note that an id can be guessed from
/// another id.
public final class OrderedUUIDs: Sendable {
    /// The maximum time, in milliseconds, that the clock may be set back before a new order begins.
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

/// Generates random UUIDs (RFC 9562, version 4).
///
/// The generator is used because Foundation would open and close the system's random source for each UUID.
public final class UUIDv4Generator: Sendable {
    private let random = RandomBytePool()

    public init() {}

    public func make() -> UUID {
        var uuid = withUnsafeBytes(of: random.pair()) { $0.loadUnaligned(as: uuid_t.self) }
        uuid.6 = 0x40 | uuid.6 & 0x0f
        uuid.8 = 0x80 | uuid.8 & 0x3f
        return UUID(uuid: uuid)
    }
}

extension UUID {
    /// Creates a UUID from a hash. Equal hashes give equal UUIDs.
    ///
    /// The UUID consists of the first 16 bytes of the hash, with the version set to 8 (RFC 9562, 5.8).
    init(hash: SHA256.Digest) {
        var uuid = hash.withUnsafeBytes { $0.loadUnaligned(as: uuid_t.self) }
        uuid.6 = 0x80 | uuid.6 & 0x0f
        uuid.8 = 0x80 | uuid.8 & 0x3f
        self.init(uuid: uuid)
    }
}

extension UUID {
    /// Whether the id has version 8 (RFC 9562, 5.8).
    ///
    /// If an identity provider identifies a user by a text, the gateway assigns an id of this version to the user. The
    /// version distinguishes these ids from ids of other systems.
    public var isVersion8: Bool { uuid.6 >> 4 == 8 }
}

extension UUID {
    /// The next greater id in PostgreSQL's order, which is the order of bytes. Nil for the greatest id.
    public var successor: UUID? {
        var bytes = withUnsafeBytes(of: uuid) { Array($0) }
        for index in bytes.indices.reversed() {
            bytes[index] &+= 1
            // if the byte did not overflow, the increment is complete
            if bytes[index] != 0 {
                return bytes.withUnsafeBytes { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) }
            }
        }
        return nil
    }
}

extension [UInt8] {
    /// Appends the 16 bytes of an id.
    mutating func append(_ id: UUID) {
        Swift.withUnsafeBytes(of: id.uuid) { append(contentsOf: $0) }
    }
}

/// Random words from the system.
///
/// Each read fetches several hundred words, because a read is a system call.
final class RandomBytePool: Sendable {
    private static let refill = 512
    /// The words that were read and not used yet.
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
    /// Fills a buffer with as few system calls as possible.
    fileprivate mutating func fill(_ bytes: UnsafeMutableRawBufferPointer) {
        var filled = 0
        while filled < bytes.count {
            // getentropy returns at most 256 bytes
            let part = min(256, bytes.count - filled)
            guard let start = bytes.baseAddress, getentropy(start + filled, part) == 0 else {
                // in practice getentropy does not fail; if it does, this slower method also gives random bytes
                for index in filled..<bytes.count { bytes[index] = UInt8(truncatingIfNeeded: next()) }
                return
            }
            filled += part
        }
    }
}
