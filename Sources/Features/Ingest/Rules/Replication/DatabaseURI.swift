import FoundationEssentials
package import SyncModel

/// The URI of an organization's database: `postgresql://user:password@host:port/database`.
///
/// This is a subset of libpq's URIs. Parameters that name files, services or other resources of the gateway's machine
/// are refused.
package struct DatabaseURI: Sendable, Hashable {
    static let maximumBytes = 2_000

    /// The reason why a text is not a valid URI. The reason contains no part of the text.
    package struct Malformed: Error, Hashable {
        package let reason: String
    }

    /// The TLS security that a connection requires, the weakest first.
    package enum Security: String, Sendable, Hashable, CaseIterable {
        case disable, allow, prefer, require
        case verifyCA = "verify-ca"
        case verifyFull = "verify-full"

        /// Whether the connection must be encrypted.
        package var isEncrypted: Bool {
            switch self {
            case .disable, .allow, .prefer: false
            case .require, .verifyCA, .verifyFull: true
            }
        }

        /// Whether the server's certificate must be valid.
        package var isVerified: Bool { self == .verifyCA || self == .verifyFull }
    }

    @Exact package private(set) var user: String
    @Exact private(set) var password: String
    /// The host's name or address; an IPv6 address has no brackets.
    @Exact package private(set) var host: String
    package let port: Int
    @Exact package private(set) var database: String
    package let security: Security
    @Exact private var others: [ByteExactString: String]

    /// The permitted values of parameters other than `sslmode`.
    private static let parameters: [ByteExactString: Set<ByteExactString>] = [
        "channel_binding": ["disable", "prefer", "require"],
        "ssl_min_protocol_version": ["TLSv1.2", "TLSv1.3"],
    ]

    package init(_ text: String) throws(Malformed) {
        func refuse(_ reason: String) -> Malformed { Malformed(reason: "the connection URI \(reason)") }
        guard text.utf8.count <= Self.maximumBytes, text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) else {
            let detail = "all of them printable ASCII: escape others as %XX"
            throw refuse("has at most \(Self.maximumBytes) characters, \(detail)")
        }
        guard let scheme = ["postgresql://", "postgres://"].first(where: { text.hasPrefix($0) }) else {
            throw refuse("must begin with postgresql://")
        }
        let rest = text.dropFirst(scheme.count)
        let parts = rest.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let place = parts[0].split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        let authority = place[0].split(separator: "@", omittingEmptySubsequences: false)
        guard place.count == 2, authority.count == 2 else {
            let form = "postgresql://user:password@host:port/database"
            throw refuse("must have the form \(form); in a password, write @ as %40, / as %2F, ? as %3F")
        }
        let credentials = authority[0].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard let user = Self.decoded(credentials[0]), !user.isEmpty,
            let password = credentials.count == 2 ? Self.decoded(credentials[1]) : "",
            let database = Self.decoded(place[1]), !database.isEmpty, !place[1].contains("/")
        else { throw refuse("must contain a user and a database, with % only before two hexadecimal digits") }
        guard let (host, port) = Self.hostAndPort(authority[1]) else {
            throw refuse(
                "must contain one host, and optionally a port from 1 to 65535; sockets and lists of hosts are not "
                    + "supported"
            )
        }
        (self.user, self.password, self.database) = (user, password, database)
        (self.host, self.port) = (host, port)
        (security, others) = try Self.read(parts.count == 2 ? parts[1] : "")
    }

    private static func read(_ query: Substring) throws(Malformed) -> (Security, [ByteExactString: String]) {
        var (security, others) = (Security.prefer, [ByteExactString: String]())
        var seen: Set<ByteExactString> = []
        for pair in query.split(separator: "&") {
            let halves = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            let (name, value) = (halves[0], halves.count == 2 ? halves[1] : "")
            if name == "sslmode", let mode = Security(rawValue: value), seen.insert(name).inserted {
                security = mode
            } else if parameters[name]?.contains(value) == true, seen.insert(name).inserted {
                others[name] = value
            } else {
                let modes = Security.allCases.map(\.rawValue).joined(separator: ", ")
                let names = parameters.keys.map(\.string).sorted().joined(separator: ", ")
                let known = "sslmode (\(modes)), \(names)"
                throw Malformed(reason: "the connection URI may have these parameters, once each: \(known)")
            }
        }
        return (security, others)
    }

    private static func hostAndPort(_ text: Substring) -> (String, Int)? {
        var (host, rest) = (text, Substring())
        if text.hasPrefix("[") {
            guard let end = text.firstIndex(of: "]") else { return nil }
            host = text[text.index(after: text.startIndex)..<end]
            rest = text[text.index(after: end)...]
            guard host.contains(":"), IPAddress(String(host)) != nil, rest.isEmpty || rest.hasPrefix(":") else {
                return nil
            }
        } else if let colon = text.firstIndex(of: ":") {
            (host, rest) = (text[..<colon], text[colon...])
        }
        var port = 5_432
        if !rest.isEmpty {
            let digits = rest.dropFirst()
            guard digits.utf8.allSatisfy({ (48...57).contains($0) }), let given = Int(digits),
                (1...65_535).contains(given)
            else { return nil }
            port = given
        }
        let isName = host.utf8.allSatisfy { byte in
            switch byte {
            case 48...57, 65...90, 97...122, UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"): true
            default: text.hasPrefix("[") && byte == UInt8(ascii: ":")
            }
        }
        return isName && (1...253).contains(host.utf8.count) ? (String(host), port) : nil
    }

    private static func decoded(_ text: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.popFirst().flatMap(digit), let low = rest.popFirst().flatMap(digit),
                high << 4 | low != 0
            else { return nil }
            bytes.append(high << 4 | low)
        }
        return String(validating: bytes, as: UTF8.self)
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 48...57: byte - 48
        case 65...70: byte - 55
        case 97...102: byte - 87
        default: nil
        }
    }

    // MARK: - Connecting

    /// Returns the reason why the gateway does not connect to this URI; nil if there is no such reason.
    ///
    /// The host name is not resolved here, so the address that it resolves to is not checked. The text continues a
    /// sentence that starts with "the connection URI".
    package func problem(_ policy: AddressPolicy) -> String? {
        if let address = IPAddress(host) { return problem(address, policy).map { "cannot be used: \($0)" } }
        if WebhookURL.isOddNumber(host) { return "contains an address in an unusual form: use four decimal numbers" }
        // the address of a host name is checked when the connection is opened
        if !security.isEncrypted, policy.allowed.isEmpty {
            return "must have ?sslmode=verify-full, or at least sslmode=require"
        }
        return nil
    }

    /// Returns the reason why the gateway does not connect to one of the host's addresses; nil if the address is
    /// allowed.
    package func problem(_ address: IPAddress, _ policy: AddressPolicy) -> String? {
        if let problem = policy.problem(address, isTLS: true) { return problem }
        guard !security.isEncrypted, policy.problem(address, isTLS: false) != nil else { return nil }
        return "its address \(address) is public: add ?sslmode=verify-full, or at least sslmode=require, to the URI"
    }

    /// Returns the connection string for libpq.
    ///
    /// The string overrides all settings that libpq would read from the gateway's environment and home directory.
    /// Therefore a foreign server receives neither the gateway's password nor its certificate.
    ///
    /// - Parameters:
    ///   - address: an address of the host that was checked and is allowed.
    ///   - authorities: the path of the file with the trusted certificate authorities.
    package func keywords(address: IPAddress, authorities: String) -> String {
        let nowhere = "/nonexistent/sluice"
        var keywords = [
            ("host", host), ("hostaddr", address.description), ("port", String(port)), ("user", user),
            ("password", password), ("dbname", database), ("sslmode", security.rawValue), ("passfile", nowhere),
            ("sslcert", nowhere), ("sslkey", nowhere), ("gssencmode", "disable"),
            ("sslrootcert", security.isVerified ? authorities : nowhere), ("target_session_attrs", "any"),
        ]
        keywords += others.sorted { $0.key < $1.key }.map { ($0.key.string, $0.value) }
        return keywords.map { "\($0)=\(Self.quoted($1))" }.joined(separator: " ")
    }

    private static func quoted(_ value: String) -> String {
        "'\(value.replacing("\\", with: "\\\\").replacing("'", with: "\\'"))'"
    }
}
