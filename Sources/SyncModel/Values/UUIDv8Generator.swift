public import Foundation

/// Makes random UUIDs of version 8 (RFC 9562, 5.8).
///
/// The gateway gives them to users whom others identify by a text. The version distinguishes them from ids that others
/// made.
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
    /// Whether the id may be one of ``UUIDv8Generator``'s.
    public var isVersion8: Bool { uuid.6 >> 4 == 8 }
}
