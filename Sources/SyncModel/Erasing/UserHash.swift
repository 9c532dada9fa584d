import Crypto
public import Foundation

/// The hash that remains of an erased user's id.
///
/// It recognizes the user if the id is used again, and does not lead back to a person.
public struct UserHash: Sendable, Hashable {
    /// SHA-256 of the organization's id and the user's: 32 bytes.
    public let bytes: [UInt8]

    public init(of user: LaneKey) {
        var text: [UInt8] = []
        text.reserveCapacity(32)
        text.append(user.organization)
        text.append(user.user)
        bytes = Array(SHA256.hash(data: text))
    }

    public init(bytes: [UInt8]) { self.bytes = bytes }

    /// The idempotency key of the user's erasure: the same each time it is sent.
    public var idempotencyKey: UUID {
        UUID(hash: SHA256.hash(data: Array("erasure".utf8) + bytes))
    }

    /// A short name for log lines, sufficient to find an erasure's lines and its row.
    public var name: String {
        let digits = Array("0123456789abcdef".utf8)
        let name = bytes.prefix(8).flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
        return String(decoding: name, as: UTF8.self)
    }
}
