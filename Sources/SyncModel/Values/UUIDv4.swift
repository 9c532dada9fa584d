public import Foundation

/// Makes random UUIDs (RFC 9562, version 4). Foundation opens and closes the system's source for each.
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
