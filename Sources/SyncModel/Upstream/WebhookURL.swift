/// Where an endpoint is: `https`, a host, perhaps a port, a path and a query. `http` where the operator allows the
/// address.
public struct WebhookURL: Sendable, Hashable {
    public static let maximumBytes = BaseURL.maximumBytes

    /// With scheme and host in lower case.
    @Exact public private(set) var text: String
    public let isTLS: Bool
    /// A name or an address, without brackets.
    @Exact public private(set) var host: String
    public let port: Int

    public init(_ text: String) throws(BaseURL.Malformed) {
        let path = text.before("?")
        let base = try BaseURL(String(path))
        guard text.utf8.count <= Self.maximumBytes else {
            throw BaseURL.Malformed(reason: "is longer than \(Self.maximumBytes) bytes")
        }
        let query = text[path.endIndex...]
        // RFC 3986, 3.4: what a path may hold, and "?"
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
        // a slash at the end of a path is another path
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

    /// Whether the last part of a host is a number, so that it is read as an address.
    ///
    /// The number is decimal, octal or hexadecimal. Systems' resolvers read hosts as `inet_aton` does. No name ends so.
    package static func isOddNumber(_ host: String) -> Bool {
        guard let last = host.split(separator: ".").last?.lowercased() else { return false }
        if last.utf8.allSatisfy({ (48...57).contains($0) }) { return true }
        return last.hasPrefix("0x") && last.dropFirst(2).utf8.allSatisfy { Character(Unicode.Scalar($0)).isHexDigit }
    }

    /// Why nothing will be sent there, as far as known before a name is resolved.
    ///
    /// It completes "url …". Nil if there is no objection.
    public func problem(_ policy: AddressPolicy) -> String? {
        if let address = IPAddress(host) {
            return policy.problem(address, isTLS: isTLS).map { "cannot be used: \($0)" }
        }
        if isOddNumber { return "contains an address in an unusual form: use four decimal numbers" }
        // whether a name leads to an address that is allowed is found out when it is connected to
        if !isTLS, policy.allowed.isEmpty { return "must be https" }
        return nil
    }
}
