import SyncModel

/// All issuers in force.
///
/// A token names its issuer, before anything in it is believed; only that issuer's keys are tried then, so no issuer's
/// key verifies a token that names another issuer.
struct IssuerTable: Sendable {
    private(set) var entries: [IssuerEntry]
    private let byName: [ByteExactString: Int]
    /// The issuer for tokens that name none of the others.
    private let fallback: Int?

    /// - Throws: `TokenConfigurationError` where two issuers have one name.
    init(_ entries: [IssuerEntry]) throws {
        guard !entries.isEmpty else {
            throw TokenConfigurationError("No JWT key is configured: set a secret or a file of public keys.")
        }
        self.entries = entries
        var byName: [ByteExactString: Int] = [:]
        var fallback: Int?
        for (index, entry) in entries.enumerated() {
            if let name = entry.rules.issuer {
                guard byName.updateValue(index, forKey: name) == nil else {
                    throw TokenConfigurationError("Two JWT issuers have the same name, \(name).")
                }
            } else {
                guard fallback == nil else { throw TokenConfigurationError("Two JWT issuers have no name.") }
                fallback = index
            }
        }
        self.byName = byName
        self.fallback = fallback
    }

    /// The issuer that a token claims.
    ///
    /// With the payload where it had to be read for that.
    ///
    /// With a single issuer, only the header is read before the signature is verified; the issuer's name is compared
    /// afterwards.
    func issuer(of text: TokenText) throws(TokenError) -> (IssuerEntry, TokenPayload?) {
        if entries.count == 1 { return (entries[0], nil) }
        let payload = try TokenPayload(text.payload)
        let name = try payload.text("iss")
        if let index = name.flatMap({ byName[ByteExactString($0)] }) ?? fallback { return (entries[index], payload) }
        throw name == nil ? .missingClaim("iss") : .wrongIssuer
    }

    /// The issuer of a name; with nil, the one without.
    func issuer(named name: ByteExactString?) -> IssuerEntry? {
        (name.map { byName[$0] } ?? fallback).map { entries[$0] }
    }

    mutating func takeKeys(of remote: JWKSCache) {
        for index in entries.indices where entries[index].remote === remote { entries[index].takeRemoteKeys() }
    }

    /// The issuers of a configuration, with their configured keys.
    ///
    /// Published keys come from ``JWKSCache`` by URL, and known ones are kept.
    ///
    /// - Throws: ``TokenConfigurationError``.
    static func table(
        _ configuration: TokenConfiguration,
        known: [ByteExactString: JWKSCache],
        wake: AsyncStream<Void>.Continuation
    ) async throws -> (IssuerTable, [ByteExactString: JWKSCache]) {
        var entries: [IssuerEntry] = []
        var remotes: [ByteExactString: JWKSCache] = [:]
        for issuer in configuration.issuers {
            let given = try await TokenKeySet.keys(secret: issuer.secret, sources: issuer.keys)
            guard !given.isEmpty || issuer.jwksURL != nil else {
                throw TokenConfigurationError("The JWT issuer \(issuer.issuer?.string ?? "without a name") has no key.")
            }
            var remote: JWKSCache?
            if let url = issuer.jwksURL {
                if let problem = KeySetURL.problem(url) {
                    throw TokenConfigurationError("The URL of a key set \(problem).")
                }
                remote = remotes[url] ?? known[url] ?? JWKSCache(url: url) { wake.yield() }
                remotes[url] = remote
            }
            let rules = try TokenRules(issuer, leewaySeconds: configuration.leewaySeconds)
            entries.append(IssuerEntry(issuer, rules: rules, given: given, remote: remote))
        }
        return (try IssuerTable(entries), remotes)
    }
}
