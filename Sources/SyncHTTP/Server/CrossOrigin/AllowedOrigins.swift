import SyncModel

/// The origins of web pages that may read responses (WHATWG Fetch, the CORS protocol): `https://app.example.org`, or
/// every subdomain at any depth of `https://*.example.org`.
///
/// An origin is no authorization: a client other than a browser can send any origin. A token decides what is allowed.
package struct AllowedOrigins: Sendable, Equatable {
    package static let maximum = 100

    /// A pattern of subdomains: what an origin begins and ends with.
    private struct Pattern: Sendable, Equatable {
        @Exact private(set) var scheme: String
        /// With its leading point, and a port if there is one.
        @Exact private(set) var suffix: String
    }

    private var exact: Set<ByteExactString> = []
    private var patterns: [Pattern] = []

    /// - Parameter text: origins with white space between.
    /// - Returns: nil unless the text is a list of up to ``maximum`` origins and patterns.
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
    /// - Parameter origin: as a browser sends it in `Origin`: in lower case, without a default port.
    func allows(_ origin: String) -> Bool {
        if exact.contains(origin) { return true }
        if patterns.isEmpty { return false }
        guard let origin = Origin(origin[...]), !origin.isPattern else { return false }
        return patterns.contains { origin.scheme == $0.scheme && origin.authority.hasSuffix($0.suffix) }
    }
}

/// An origin in its serialized form (RFC 6454, 6.2): scheme, host and a port that is not the scheme's own.
private struct Origin {
    let scheme: String
    /// Host and port; `*` in place of the first label in a pattern.
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

    /// - Returns: nil for an invalid port.
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

    /// `*.example.org`: a `*` for a whole top-level domain would admit every owner of a domain there.
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
