public import Foundation

/// Makes random UUIDs of version 8 (RFC 9562, 5.8): ids that the gateway gave to somebody whom others know by a text,
/// told by their version from ids that others made up.
public final class UUIDv8Generator: Sendable {
    private let random = RandomReserve()

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
