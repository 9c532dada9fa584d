/// An upstream's valid base URL.
///
/// `http` or `https`, a host (a name, an IPv4 address, or an IPv6 address in brackets), perhaps a port and a path;
/// slashes at the end do not matter.
public struct BaseURL: Sendable, Hashable {
    public static let maximumBytes = 2_000

    /// The stored form: without slashes at its end, scheme and host in lower case.
    @Exact public private(set) var text: String
    public let isTLS: Bool
    /// The value of `Host`: no port where it is the scheme's default.
    @Exact public private(set) var host: String

    /// The error in a text; completes "base_url …".
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
