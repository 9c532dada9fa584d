import Crypto
public import FoundationEssentials
import JSONText

/// The path below an upstream's base URL to which the gateway sends a `DELETE` when a user is erased.
public enum EraseEndpoint {
    /// The placeholder for the user's id.
    public static let placeholder = "{user}"
    public static let maximumBytes = 1_000

    /// The error in an endpoint that an operator configures; nil for a valid endpoint.
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

    /// The path for the erasure of one user.
    public static func path(_ endpoint: String, of user: UUID) -> String {
        UpstreamRequest.encoded(path: endpoint.replacing(placeholder, with: user.lowercased))
    }
}

/// The treatment of a type's documents when their owner is erased.
public enum OnErase: String, Sendable, Hashable, CaseIterable {
    /// The documents are deleted, and devices pull tombstones.
    case delete
    /// The documents are kept without an owner. Only the documents that no other user sees are deleted.
    case blankOwner = "blank_owner"
}

/// The hash of an erased user's id, which remains after the erasure.
///
/// With this hash, the gateway recognizes the user if the id is used again, but cannot identify the person.
public struct UserHash: Sendable, Hashable {
    /// The SHA-256 of the organization's id and the user's id, which has 32 bytes.
    public let bytes: [UInt8]

    public init(of user: LaneKey) {
        var text: [UInt8] = []
        text.reserveCapacity(32)
        text.append(user.organization)
        text.append(user.user)
        bytes = Array(SHA256.hash(data: text))
    }

    public init(bytes: [UInt8]) { self.bytes = bytes }

    /// The idempotency key of the request that erases the user at an upstream. The key is the same each time the
    /// request is sent.
    public var idempotencyKey: UUID {
        UUID(hash: SHA256.hash(data: Array("erasure".utf8) + bytes))
    }

    /// A short name for log lines. The name is sufficient to find the log lines and the row of an erasure.
    public var name: String {
        let digits = Array("0123456789abcdef".utf8)
        let name = bytes.prefix(8).flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
        return String(decoding: name, as: UTF8.self)
    }
}
