/// The parts of a URL that is not checked yet.
struct URLParts {
    let scheme: Substring
    /// The host and the port.
    let authority: Substring
    /// The path without slashes at its end.
    let path: Substring

    /// Splits a URL; nil if the URL has no `://` after the scheme.
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

    /// The error in the URL; nil for a valid URL.
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

    /// The error in the path; nil for a valid path.
    ///
    /// The path must follow the rules for endpoints, because no part of the path may be ambiguous.
    private var pathProblem: String? {
        if path.isEmpty { return nil }
        // the characters of RFC 3986, 3.3 (unreserved, sub-delims, ":" and "@"), slashes between segments, and escapes
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

    /// Whether a host has only letters, digits, hyphens and underscores between dots. The host may also end with a dot.
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

/// An upstream's valid base URL.
///
/// The URL has the scheme `http` or `https` and a host, and optionally a port and a path. The host is a name, an IPv4
/// address, or an IPv6 address in brackets. Slashes at the end are ignored.
public struct BaseURL: Sendable, Hashable {
    public static let maximumBytes = 2_000

    /// The stored form, without slashes at the end, and with the scheme and the host in lower case.
    @Exact public private(set) var text: String
    public let isTLS: Bool
    /// The value of `Host`. The value omits the port if the port is the default of the scheme.
    @Exact public private(set) var host: String

    /// The error in a text. The reason continues a sentence that begins with "base_url".
    public struct Malformed: Error, Sendable, Hashable {
        public let reason: String
    }

    public init(_ text: String) throws(Malformed) {
        guard text.utf8.count <= Self.maximumBytes else {
            throw Malformed(reason: "is longer than \(Self.maximumBytes) bytes")
        }
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) else {
            throw Malformed(reason: "must be ASCII without spaces and control characters")
        }
        guard let parts = URLParts(text) else { throw Malformed(reason: "must start with http:// or https://") }
        if let problem = parts.problem { throw Malformed(reason: problem) }
        let authority = parts.authority.lowercased()
        isTLS = parts.scheme.lowercased() == "https"
        self.text = "\(parts.scheme.lowercased())://\(authority)\(parts.path)"
        let port = isTLS ? ":443" : ":80"
        host = authority.hasSuffix(port) ? String(authority.dropLast(port.count)) : authority
    }
}

// MARK: - WebhookURL

/// The URL of a webhook's endpoint.
///
/// The URL has the scheme `https` and a host, and optionally a port, a path and a query. The scheme may be `http` if
/// the operator allows the address.
public struct WebhookURL: Sendable, Hashable {
    public static let maximumBytes = BaseURL.maximumBytes

    /// The URL, with the scheme and the host in lower case.
    @Exact public private(set) var text: String
    public let isTLS: Bool
    /// The host, which is a name or an address without brackets.
    @Exact public private(set) var host: String
    public let port: Int

    public init(_ text: String) throws(BaseURL.Malformed) {
        let path = text.before("?")
        let base = try BaseURL(String(path))
        guard text.utf8.count <= Self.maximumBytes else {
            throw BaseURL.Malformed(reason: "is longer than \(Self.maximumBytes) bytes")
        }
        let query = text[path.endIndex...]
        // the characters of a path, and "?" (RFC 3986, 3.4)
        let others = Array("-._~!$&'()*+,;=:@/?%".utf8)
        let isPlain = query.utf8.allSatisfy { byte in
            switch byte {
            case 48...57, 65...90, 97...122: true
            default: others.contains(byte)
            }
        }
        guard isPlain else { throw BaseURL.Malformed(reason: "has a query with characters that must be escaped") }
        isTLS = base.isTLS
        let authority = base.text.from(":").dropFirst(3).before("/")
        let rest = base.text[authority.endIndex...]
        // unlike in a base URL, a slash at the end of the path is significant
        self.text = base.text + (rest.isEmpty || path.hasSuffix("/") ? "/" : "") + query
        if authority.hasPrefix("["), let end = authority.firstIndex(of: "]") {
            host = String(authority[..<end].dropFirst())
            port = Int(authority[end...].dropFirst(2)) ?? (base.isTLS ? 443 : 80)
        } else {
            let name = authority.before(":")
            host = String(name)
            port = Int(authority[name.endIndex...].dropFirst()) ?? (base.isTLS ? 443 : 80)
        }
    }

    private var isOddNumber: Bool { Self.isOddNumber(host) }

    /// Whether resolvers read the host as an address, because the last part of the host is a number.
    ///
    /// The number can be decimal, octal or hexadecimal, because resolvers read hosts in the same way as `inet_aton`.
    /// The last part of a host name is never a number.
    package static func isOddNumber(_ host: String) -> Bool {
        guard let last = host.split(separator: ".").last?.lowercased() else { return false }
        if last.utf8.allSatisfy({ (48...57).contains($0) }) { return true }
        return last.hasPrefix("0x") && last.dropFirst(2).utf8.allSatisfy { Character(Unicode.Scalar($0)).isHexDigit }
    }

    /// The reason why nothing is sent to the URL; nil if no reason is known before the host name is resolved.
    ///
    /// The text continues a sentence that begins with "url".
    public func problem(_ policy: AddressPolicy) -> String? {
        if let address = IPAddress(host) {
            return policy.problem(address, isTLS: isTLS).map { "cannot be used: \($0)" }
        }
        if isOddNumber { return "contains an address in an unusual form: use four decimal numbers" }
        // for a host name, the address is checked when the gateway connects
        if !isTLS, policy.allowed.isEmpty { return "must be https" }
        return nil
    }
}

// MARK: - AddressPolicy

/// The addresses to which the gateway may connect if an organization chooses the address.
///
/// The policy prevents server-side request forgery. The policy rejects addresses that are not public, except if the
/// operator allows them.
public struct AddressPolicy: Sendable, Hashable {
    /// The addresses that the operator allows in addition to public addresses.
    public let allowed: [IPNetwork]

    public init(allowed: [IPNetwork] = []) {
        self.allowed = allowed
    }

    /// The reason why nothing is sent to an address; nil if the address is permitted.
    public func problem(_ address: IPAddress, isTLS: Bool) -> String? {
        let address = address.unmapped
        if allowed.contains(where: { $0.contains(address) }) { return nil }
        if let kind = Self.special.first(where: { $0.network.contains(address) })?.kind {
            return "its address \(address) is \(kind), which the operator has not allowed"
        }
        // of the IPv6 addresses, only those in 2000::/3 are public (RFC 4291, 2.4)
        if address.bytes.count == 16, address.bytes[0] & 0xe0 != 0x20 {
            return "its address \(address) is not public, and the operator has not allowed it"
        }
        return isTLS ? nil : "it is not https"
    }

    /// The special-purpose addresses of RFC 6890 and its successors, and multicast addresses.
    private static let special: [(network: IPNetwork, kind: String)] = [
        ("0.0.0.0/8", "of this network"), ("10.0.0.0/8", "private"), ("100.64.0.0/10", "a carrier's own"),
        ("127.0.0.0/8", "the gateway's own machine"), ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"), ("192.0.0.0/24", "reserved"), ("192.0.2.0/24", "for documentation"),
        ("192.88.99.0/24", "reserved"), ("192.168.0.0/16", "private"), ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"), ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"), ("240.0.0.0/4", "reserved"),
        ("::/128", "unspecified"), ("::1/128", "the gateway's own machine"), ("fe80::/10", "link-local"),
        ("fc00::/7", "private"), ("ff00::/8", "multicast"), ("64:ff9b::/96", "an embedded address"),
        ("2001::/23", "reserved"), ("2001:db8::/32", "for documentation"),
        ("2002::/16", "an embedded address"), ("3fff::/20", "for documentation"),
        // this address is in a public range, but in Azure the host of the virtual machine uses the address
        ("168.63.129.16/32", "a cloud's own"),
    ].compactMap { text, kind in IPNetwork(text).map { ($0, kind) } }
}
