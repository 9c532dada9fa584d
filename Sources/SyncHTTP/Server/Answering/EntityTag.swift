import Crypto

/// The `ETag` of a body (RFC 9110, 8.8.3): strong, so the same for the same bytes alone.
package struct EntityTag: Sendable {
    /// With its quotes.
    package let text: String

    package init(of body: [UInt8]) {
        let digits = Array("0123456789abcdef".utf8)
        // half of the digest is more than enough to distinguish bodies
        let digest = SHA256.hash(data: body).prefix(16)
        let name = digest.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
        text = "\"\(String(decoding: name, as: UTF8.self))\""
    }

    /// Whether an `If-None-Match` field names it, or anything (`*`).
    ///
    /// The comparison is weak: a tag that a cache has marked as weak counts too (RFC 9110, 13.1.2).
    package func isAmong(_ field: String?) -> Bool {
        guard let field else { return false }
        // our tags hold no comma, so one within the quotes of another tag does no harm
        return field.utf8.split(separator: UInt8(ascii: ",")).map(\.trimmed).contains { part in
            let name = Substring(part)
            return name == "*" || (name.hasPrefix("W/") ? name.dropFirst(2) : name) == text
        }
    }
}
