import Crypto
public import FoundationEssentials
import JSONText

/// The path below an upstream's base URL for the erasure of a user, by `DELETE`.
public enum EraseEndpoint {
    /// The placeholder for the user's id.
    public static let placeholder = "{user}"
    public static let maximumBytes = 1_000

    /// The error in an operator's endpoint; nil for a valid endpoint.
    ///
    /// The text continues a sentence that begins with "erase_endpoint".
    public static func problem(_ text: String) -> String? {
        guard text.utf8.first == UInt8(ascii: "/") else {
            return "must begin with a slash, as a path below base_url"
        }
        guard text.utf8.count <= maximumBytes else { return "may have at most \(maximumBytes) bytes" }
        guard text.contains(placeholder) else { return "must contain \(placeholder) in place of the user's id" }
        let rest = text.replacing(placeholder, with: "")
        guard rest.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: "#") }) else {
            return "must be ASCII without spaces, control characters and fragments"
        }
        let path = rest.before("?")
        guard !path.split(separator: "/").contains(where: { [".", ".."].contains(String($0)) }) else {
            return "must not contain . and .. segments"
        }
        return nil
    }

    /// The path of one user's erasure.
    public static func path(_ endpoint: String, of user: UUID) -> String {
        UpstreamRequest.encoded(path: endpoint.replacing(placeholder, with: user.lowercased))
    }
}

/// The treatment of a type's documents when their owner is erased.
public enum OnErase: String, Sendable, Hashable, CaseIterable {
    /// The documents are deleted, and devices pull tombstones.
    case delete
    /// The documents are kept without an owner. Documents that no other user sees are deleted nevertheless.
    case blankOwner = "blank_owner"
}

/// The hash that remains of an erased user's id.
///
/// It allows the gateway to recognize the user if the id is used again, but not to identify the person.
public struct UserHash: Sendable, Hashable {
    /// The SHA-256 of the organization's id and the user's id: 32 bytes.
    public let bytes: [UInt8]

    public init(of user: LaneKey) {
        var text: [UInt8] = []
        text.reserveCapacity(32)
        text.append(user.organization)
        text.append(user.user)
        bytes = Array(SHA256.hash(data: text))
    }

    public init(bytes: [UInt8]) { self.bytes = bytes }

    /// The idempotency key of the user's erasure at an upstream. It is the same each time the request is sent.
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
