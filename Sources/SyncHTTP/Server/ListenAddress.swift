package struct ListenAddress: Sendable, Hashable {
    /// A name or an IP address; IPv6 without brackets.
    package var host: String
    /// The port; with 0 the system chooses one.
    package var port: Int

    package init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    /// Reads `host:port`, an IPv6 address in brackets: `127.0.0.1:8080`, `[::1]:8080`. Nil for anything else.
    package init?(parsing text: String) {
        guard let colon = text.lastIndex(of: ":"),
            // digits only: `UInt16` would accept a plus sign, too
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
    /// In the form that it is parsed from: `127.0.0.1:8080`.
    package var description: String {
        host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}
