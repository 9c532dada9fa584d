/// The parts of an unchecked URL.
struct URLParts {
    let scheme: Substring
    /// Host and port.
    let authority: Substring
    /// Without slashes at its end.
    let path: Substring

    /// Nil without `://`.
    init?(_ text: String) {
        let scheme = text.before(":")
        guard text[scheme.endIndex...].hasPrefix("://") else { return nil }
        let rest = text[scheme.endIndex...].dropFirst(3)
        let authority = rest.before("/")
        var path = rest[authority.endIndex...]
        while path.hasSuffix("/") { path.removeLast() }
        self.scheme = scheme
        self.authority = authority
        self.path = path
    }

    /// The error in the URL; nil for none.
    var problem: String? {
        guard ["http", "https"].contains(scheme.lowercased()) else { return "must start with http:// or https://" }
        if path.contains("?") || authority.contains("?") { return "must not have a query" }
        if path.contains("#") || authority.contains("#") { return "must not have a fragment" }
        if authority.contains("@") { return "must not contain a user or password; use credential" }
        return authorityProblem ?? pathProblem
    }

    private var authorityProblem: String? {
        let host: Substring
        let port: Substring
        if authority.hasPrefix("[") {
            guard let end = authority.firstIndex(of: "]") else { return "has a '[' without its ']'" }
            host = authority[..<end].dropFirst()
            port = authority[end...].dropFirst()
            let isAddress = host.contains(":") && IPAddress(String(host)) != nil
            guard isAddress else { return "has no IPv6 address between '[' and ']'" }
        } else {
            host = authority.before(":")
            port = authority[host.endIndex...]
            if host.isEmpty { return "must have a host" }
            guard Self.isHostName(host) else { return "has a host that is neither a name nor an address" }
        }
        if port.isEmpty { return nil }
        let digits = port.dropFirst()
        guard port.hasPrefix(":"), digits.utf8.allSatisfy({ (48...57).contains($0) }),
            let number = Int(digits), (1...65_535).contains(number)
        else { return "has a port that is not a number from 1 to 65535" }
        return nil
    }

    /// The path follows the rules of an endpoint, so that no part of it is ambiguous.
    private var pathProblem: String? {
        if path.isEmpty { return nil }
        // RFC 3986, 3.3: unreserved, sub-delims, ":" and "@"; slashes between segments, and escapes
        let others = Array("-._~!$&'()*+,;=:@/%".utf8)
        let isPlain = path.utf8.allSatisfy { byte in
            switch byte {
            case 48...57, 65...90, 97...122: true
            default: others.contains(byte)
            }
        }
        guard isPlain else { return "has a path with a character that must be percent-encoded" }
        do {
            _ = try Endpoint(String(path))
            return nil
        } catch {
            return "has a path that \(error.reason)"
        }
    }

    /// Letters, digits, hyphens and underscores between dots; a dot may end it.
    private static func isHostName(_ host: Substring) -> Bool {
        let name = host.hasSuffix(".") ? host.dropLast() : host
        return name.utf8.count <= 253
            && name.split(separator: ".", omittingEmptySubsequences: false).allSatisfy { label in
                (1...63).contains(label.utf8.count) && !label.hasPrefix("-") && !label.hasSuffix("-")
                    && label.utf8.allSatisfy { byte in
                        switch byte {
                        case 48...57, 65...90, 97...122, 0x2d, 0x5f: true
                        default: false
                        }
                    }
            }
    }
}
