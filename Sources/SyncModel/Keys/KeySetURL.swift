/// The URL at which an identity provider publishes its keys.
public enum KeySetURL {
    /// The maximum length, in bytes.
    public static let maximumBytes = 2_000

    /// The error in the URL; nil for a valid URL. The text continues a sentence whose subject is the URL.
    public static func problem(_ text: String) -> String? {
        guard text.utf8.count <= maximumBytes else { return "is longer than \(maximumBytes) bytes" }
        guard text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
            return "must be ASCII without spaces and control characters"
        }
        guard let url = URLParts(withoutQuery(text)) else { return "must start with http:// or https://" }
        if text.contains("#") { return "must not have a fragment" }
        if url.authority.contains("@") { return "must not contain a user or a password" }
        return url.problem
    }

    /// The URL for display, without the query, because the query may contain secrets.
    public static func shown(_ text: String) -> String { withoutQuery(text) }

    /// Whether an attacker between the gateway and the provider could replace the provider's keys.
    public static func isOpenToForgery(_ text: String) -> Bool {
        guard let url = URLParts(withoutQuery(text)), url.scheme.lowercased() == "http" else { return false }
        let host =
            url.authority.hasPrefix("[") ? url.authority.before("]") : url.authority.before(":")
        return host != "localhost" && host != "[::1" && !host.hasPrefix("127.")
    }

    private static func withoutQuery(_ text: String) -> String { String(text.before("?")) }
}

/// An identity provider's answer to a request for its keys.
public enum KeySetAnswer: Sendable, Hashable {
    /// A document with keys, and the `ETag` and `Cache-Control` of the answer.
    case document([UInt8], etag: String?, cacheControl: String?)
    /// The previously fetched document is still valid (304).
    case unchanged(cacheControl: String?)
    /// The reason why there is no document, in a few words and without secrets.
    case failed(String)

    /// A function that fetches a key set within some seconds. The `etag` is the ETag of the cached document.
    public typealias Fetch = @Sendable (_ url: String, _ etag: String?) async -> KeySetAnswer
}
