public import Foundation
import JSONText

/// The path below an upstream's base URL for the erasure of a user, by `DELETE`.
public enum EraseEndpoint {
    /// The placeholder for the user's id.
    public static let placeholder = "{user}"
    public static let maximumBytes = 1_000

    /// The error in an operator's endpoint; nil for a valid one.
    ///
    /// It completes "erase_endpoint".
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
