import Crypto
public import FoundationEssentials
import Glibc
import Synchronization

/// Generates time-ordered UUIDs (RFC 9562, version 7).
///
/// They consist of 48 bits of milliseconds, followed by 74 random bits.
public final class UUIDv7Generator: Sendable {
    private let random = RandomBytePool()

    public init() {}

    public func make(at now: Timestamp) -> UUID {
        let (high, low) = random.pair()
        return Self.assemble(UInt64(max(0, now.microseconds / 1_000)), high, low)
    }

    /// The smallest id of a time's millisecond. Ids of earlier milliseconds are smaller.
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
/// It uses RFC 9562, 6.2, method 2. The order is also correct within a millisecond, and after the clock went back
/// slightly. Use it for ids that determine an order. Note that an id can be guessed from another id.
public final class OrderedUUIDs: Sendable {
    /// The number of milliseconds that the clock may go back before the order begins again.
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
/// Foundation would open and close the system's random source for each UUID.
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
    /// Creates a UUID from a hash, so that equal hashes give equal UUIDs.
    ///
    /// It consists of the hash's first 16 bytes, marked as version 8 (RFC 9562, 5.8).
    init(hash: SHA256.Digest) {
        var uuid = hash.withUnsafeBytes { $0.loadUnaligned(as: uuid_t.self) }
        uuid.6 = 0x80 | uuid.6 & 0x0f
        uuid.8 = 0x80 | uuid.8 & 0x3f
        self.init(uuid: uuid)
    }

    /// Creates the id of an entity that a mutation creates in the built-in store: a UUID of version 7.
    ///
    /// It depends only on the mutation. A restored gateway may have lost the entity, which the mutation then creates
    /// again. It must get the id that phones have received, and that other mutations refer to.
    ///
    /// Clients choose the ids of mutations, so an entity may already have the id. Read that entity before a create.
    ///
    /// - Parameters:
    ///   - user: the user who pushed the mutation. Mutations of different users never create the same entity.
    ///   - accepted: the time in the id, if the id of the mutation is of another version.
    init(createdBy mutation: UUID, of user: UUID, in organization: UUID, at accepted: Timestamp) {
        var hash = SHA256()
        // upstreams receive idempotency keys, which are hashes of the same ids without this text
        Array("entity".utf8).withUnsafeBytes { hash.update(bufferPointer: $0) }
        for id in [organization, user, mutation] {
            withUnsafeBytes(of: id.uuid) { hash.update(bufferPointer: $0) }
        }
        let time = mutation.uuid.6 >> 4 == 7 ? mutation.uuid : UUIDv7Generator.least(at: accepted).uuid
        var uuid = hash.finalize().withUnsafeBytes { $0.loadUnaligned(as: uuid_t.self) }
        (uuid.0, uuid.1, uuid.2, uuid.3, uuid.4, uuid.5) = (time.0, time.1, time.2, time.3, time.4, time.5)
        uuid.6 = 0x70 | uuid.6 & 0x0f
        uuid.8 = 0x80 | uuid.8 & 0x3f
        self.init(uuid: uuid)
    }
}

/// Generates random UUIDs of version 8 (RFC 9562, 5.8).
///
/// The gateway gives these UUIDs to users whom an identity provider identifies by a text. The version distinguishes the
/// UUIDs from ids that other systems created.
public final class UUIDv8Generator: Sendable {
    private let random = RandomBytePool()

    public init() {}

    public func make() -> UUID {
        var uuid = withUnsafeBytes(of: random.pair()) { $0.loadUnaligned(as: uuid_t.self) }
        uuid.6 = 0x80 | uuid.6 & 0x0f
        uuid.8 = 0x80 | uuid.8 & 0x3f
        return UUID(uuid: uuid)
    }
}

extension UUID {
    /// Whether ``UUIDv8Generator`` may have generated the id.
    public var isVersion8: Bool { uuid.6 >> 4 == 8 }
}

extension UUID {
    /// The next greater id in PostgreSQL's order, which is by bytes. Nil for the greatest id.
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
/// Each read gets several hundred words, because it is a system call.
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
            // getentropy returns at most 256 bytes
            let part = min(256, bytes.count - filled)
            guard let start = bytes.baseAddress, getentropy(start + filled, part) == 0 else {
                // getentropy has not failed in practice; if it fails, this slower way gives random bytes, too
                for index in filled..<bytes.count { bytes[index] = UInt8(truncatingIfNeeded: next()) }
                return
            }
            filled += part
        }
    }
}
