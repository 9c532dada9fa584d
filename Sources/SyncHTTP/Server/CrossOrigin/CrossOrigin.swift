import HTTPTypes
import HummingbirdCore
import SyncModel

/// Permits web pages of other origins to send requests and read responses (WHATWG Fetch, the CORS protocol).
///
/// Cookies (credentials in the protocol) are never permitted. A token is sent in `Authorization`. Browsers do not add
/// this field themselves, so other pages cannot use a user's token.
package struct CrossOrigin: Sendable {
    let origins: AllowedOrigins

    /// The time for which a browser may cache the response to a preflight, in seconds: the maximum of Chromium.
    private static let maximumAge = "7200"
    /// The fields that requests may have in addition to the fields that the protocol always permits.
    private static let requestFields = [
        HTTPField.Name.authorization, .contentType, .prefer, .lastEventID, .ifNoneMatch, .xRequestID,
        .sluiceOrganization, .traceparent, .tracestate,
    ].map(\.rawName).joined(separator: ", ")
    /// The fields that pages may read in addition to the fields that the protocol always exposes.
    private static let answerFields = [
        HTTPField.Name.xRequestID, .retryAfter, .rateLimit, .rateLimitPolicy, .preferenceApplied, .wwwAuthenticate,
        .eTag, .allow, .date,
    ].map(\.rawName).joined(separator: ", ")

    /// Responds to `OPTIONS`. It requires no token, because browsers send no token in a preflight.
    ///
    /// The response to a browser's preflight contains the permitted requests. The response to other clients contains
    /// the methods of the path (RFC 9110, 9.3.7).
    ///
    /// - Parameter methods: the methods of the path, as in `Allow`.
    func options(_ methods: String, _ exchange: Exchange) -> Answer {
        let headers = exchange.request.headers
        var answer = Answer(.noContent)
        answer.headers[.allow] = methods
        guard headers[.accessControlRequestMethod] != nil, let origin = headers[.origin], origins.allows(origin) else {
            return answer
        }
        answer.headers[.accessControlAllowMethods] = methods
        answer.headers[.accessControlAllowHeaders] = Self.requestFields
        answer.headers[.accessControlMaxAge] = Self.maximumAge
        return answer
    }

    /// Adds the headers that permit a page of an allowed origin to read the response.
    ///
    /// Error responses have these headers, too, because otherwise a page could not distinguish them from a network
    /// failure.
    func mark(_ answer: inout Answer, for headers: HTTPFields) {
        answer.headers.append(HTTPField(name: .vary, value: HTTPField.Name.origin.rawName))
        guard let origin = headers[.origin], origins.allows(origin) else { return }
        answer.headers[.accessControlAllowOrigin] = origin
        answer.headers[.accessControlExposeHeaders] = Self.answerFields
    }
}

/// The origins of web pages that may read responses (WHATWG Fetch, the CORS protocol).
///
/// Each entry is an origin such as `https://app.example.org`, or a pattern such as `https://*.example.org`, which
/// matches subdomains at any depth.
///
/// An origin is not an authorization, because clients other than browsers can send any origin. The token determines the
/// permissions.
package struct AllowedOrigins: Sendable, Equatable {
    package static let maximum = 100

    /// A pattern of subdomains: the beginning and the end of an origin.
    private struct Pattern: Sendable, Equatable {
        @Exact private(set) var scheme: String
        /// The end of the origin: the text after `*`, including the port if there is one.
        @Exact private(set) var suffix: String
    }

    private var exact: Set<ByteExactString> = []
    private var patterns: [Pattern] = []

    /// - Parameter text: origins, separated by white space.
    /// - Returns: nil if an entry is invalid, if there is no entry, or if there are more than ``maximum``.
    package init?(parsing text: String) {
        let entries = text.split(whereSeparator: \.isWhitespace)
        guard (1...Self.maximum).contains(entries.count) else { return nil }
        for entry in entries {
            guard let origin = Origin(entry) else { return nil }
            if origin.isPattern {
                patterns.append(Pattern(scheme: origin.scheme, suffix: String(origin.authority.dropFirst())))
            } else {
                exact.insert(String(entry))
            }
        }
    }

    /// Whether a page of this origin may read responses.
    ///
    /// - Parameter origin: the origin in the form of `Origin`: in lower case, without a default port.
    func allows(_ origin: String) -> Bool {
        if exact.contains(origin) { return true }
        if patterns.isEmpty { return false }
        guard let origin = Origin(origin[...]), !origin.isPattern else { return false }
        return patterns.contains { origin.scheme == $0.scheme && origin.authority.hasSuffix($0.suffix) }
    }
}

/// An origin in its serialized form (RFC 6454, 6.2): scheme, host, and the port unless it is the scheme's default.
private struct Origin {
    let scheme: String
    /// The host and the port. In a pattern, the first label of the host is `*`.
    let authority: Substring

    var isPattern: Bool { authority.hasPrefix("*.") }

    init?(_ text: Substring) {
        guard let scheme = ["https", "http"].first(where: { text.hasPrefix($0 + "://") }) else { return nil }
        self.scheme = scheme
        authority = text.dropFirst(scheme.utf8.count + 3)
        guard authority.utf8.count <= 261, let (host, port) = Self.parts(of: authority) else { return nil }
        let isDefault = port == (scheme == "https" ? 443 : 80)
        guard !isDefault, isPattern ? Self.isPattern(host) : Self.isHost(host) else { return nil }
    }

    /// - Returns: the host and the port; nil for an invalid port.
    private static func parts(of authority: Substring) -> (host: Substring, port: Int?)? {
        let afterAddress = authority.lastIndex(of: "]") ?? authority.startIndex
        guard let colon = authority[afterAddress...].firstIndex(of: ":") else { return (authority, nil) }
        let digits = authority[authority.index(after: colon)...]
        guard digits.utf8.allSatisfy({ (48...57).contains($0) }), !digits.hasPrefix("0"), let port = Int(digits),
            port <= 65_535
        else { return nil }
        return (authority[..<colon], port)
    }

    private static func isHost(_ host: Substring) -> Bool {
        if host.hasPrefix("["), host.hasSuffix("]") {
            let address = host.dropFirst().dropLast().utf8
            return !address.isEmpty
                && address.allSatisfy { (48...57).contains($0) || (97...102).contains($0) || $0 == 58 || $0 == 46 }
        }
        return host.split(separator: ".", omittingEmptySubsequences: false).allSatisfy(isLabel)
    }

    /// Whether a host is a pattern such as `*.example.org`. A `*` directly below a top-level domain other than
    /// `localhost` is not allowed, because it would match every domain below the top-level domain.
    private static func isPattern(_ host: Substring) -> Bool {
        let rest = host.dropFirst(2)
        return isHost(rest) && (rest.contains(".") || rest == "localhost")
    }

    private static func isLabel(_ label: Substring) -> Bool {
        !label.isEmpty && label.utf8.count <= 63
            && label.utf8.allSatisfy {
                (48...57).contains($0) || (97...122).contains($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_")
            }
    }
}
