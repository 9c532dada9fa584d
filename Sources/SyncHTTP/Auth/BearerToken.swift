package import HTTPTypes
import SyncModel

/// Reads and refuses tokens in `Authorization: Bearer …` (RFC 6750).
package enum BearerToken {
    /// Returns the token of a request.
    ///
    /// - Throws: 401 with a challenge. The challenge has an error code if the request has a token (RFC 6750, 3.1).
    package static func of(_ headers: HTTPFields) throws(Refusal) -> Substring {
        guard let value = headers[.authorization] else {
            throw Refusal(Problem(.unauthorized, "A bearer token is required."), headers: [.wwwAuthenticate: "Bearer"])
        }
        guard let token = parse(value) else {
            if isEmpty(value) {
                let detail = "The bearer token is empty: no text follows \"Bearer\" in the Authorization header."
                throw refusal("invalid_request", detail)
            }
            throw refusal("invalid_request", "The Authorization header must contain exactly one Bearer token.")
        }
        return token
    }

    /// Returns the text after the scheme; nil if it is not a single token. The scheme may be in upper or lower case.
    ///
    /// The values of repeated header fields are joined by commas. A token cannot contain a comma, so repeated fields
    /// result in nil.
    package static func parse(_ value: String) -> Substring? {
        let scheme = "bearer "
        guard Substring(value.utf8.prefix(scheme.utf8.count)).lowercased() == scheme else { return nil }
        let token = Substring(value.utf8.dropFirst(scheme.utf8.count).drop { $0 == UInt8(ascii: " ") })
        return isToken(token) ? token : nil
    }

    /// Whether the scheme is `Bearer` but no token follows, for example because a shell variable was not set.
    package static func isEmpty(_ value: String) -> Bool {
        value.lowercased().before(" ") == "bearer"
            && value.utf8.dropFirst("bearer".utf8.count).allSatisfy { $0 == UInt8(ascii: " ") }
    }

    package static func isToken(_ text: some StringProtocol) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy(isTokenByte)
    }

    /// Returns a 401 about an invalid token.
    ///
    /// - Parameter description: a description that contains no part of a token.
    package static func refusal(_ error: StaticString, _ description: String) -> Refusal {
        let challenge = "Bearer error=\"\(error)\", error_description=\"\(plain(description))\""
        return Refusal(Problem(.unauthorized, description), headers: [.wwwAuthenticate: challenge])
    }

    /// Returns text that is valid in a header between quotes (RFC 6750, 3): ASCII without `"` and `\`.
    ///
    /// Double quotes become single quotes, so that a path of the settings in a description, such as `$["org"]`, keeps
    /// its meaning. All other characters that are not valid become `?`.
    private static func plain(_ description: String) -> String {
        String(
            description.unicodeScalars.map { character in
                switch character {
                case "\"": "'"
                case "\\": "?"
                default: (0x20..<0x7f).contains(character.value) ? Character(character) : "?"
                }
            }
        )
    }

    /// Whether a byte can be part of a `b64token`: letters, digits and `-._~+/=`.
    private static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"): true
        case UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"): true
        case UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "="): true
        default: false
        }
    }
}
