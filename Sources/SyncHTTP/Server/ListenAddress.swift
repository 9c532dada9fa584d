/// Where a server listens.
public struct ListenAddress: Sendable, Hashable {
    /// A name or an IP address; IPv6 without brackets.
    public var host: String
    /// 0 lets the system choose.
    public var port: Int

    /// Creates an address.
    public init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    /// Reads `host:port`, an IPv6 address in brackets: `127.0.0.1:8080`, `[::1]:8080`. Nil for anything else.
    public init?(parsing text: String) {
        guard let colon = text.lastIndex(of: ":"),
            // digits only: a plus sign would be taken, too
            text[text.index(after: colon)...].utf8.allSatisfy({ (48...57).contains($0) }),
            let port = UInt16(text[text.index(after: colon)...])
        else { return nil }
        var host = text[..<colon]
        guard !host.contains(where: \.isWhitespace) else { return nil }
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
        } else if host.contains(":") {
            return nil
        }
        guard !host.isEmpty else { return nil }
        self.init(host: String(host), port: Int(port))
    }
}

extension ListenAddress: CustomStringConvertible {
    /// As it is parsed: `127.0.0.1:8080`.
    public var description: String {
        host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}
