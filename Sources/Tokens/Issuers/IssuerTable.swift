package import FoundationEssentials
package import SyncModel

/// All issuers in force.
///
/// A token's issuer is read before the token is verified. Only the keys of this issuer are then used to verify the
/// token, never the keys of another issuer.
struct IssuerTable: Sendable {
    private(set) var entries: [IssuerEntry]
    private let byName: [ByteExactString: Int]
    /// The issuer of tokens that do not name another issuer.
    private let fallback: Int?

    /// - Throws: `TokenConfigurationError` if two issuers have the same name.
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

    /// Returns the issuer that a token names, and the payload if the look-up has read it.
    ///
    /// With a single issuer, the payload is not read before the signature is verified. The issuer's name is
    /// compared afterwards.
    func issuer(of text: TokenText) throws(TokenError) -> (IssuerEntry, TokenPayload?) {
        if entries.count == 1 { return (entries[0], nil) }
        let payload = try TokenPayload(text.payload)
        let name = try payload.text("iss")
        if let index = name.flatMap({ byName[ByteExactString($0)] }) ?? fallback { return (entries[index], payload) }
        throw name == nil ? .missingClaim("iss") : .wrongIssuer
    }

    /// The issuer with this name or, if the name is nil, the issuer without a name.
    func issuer(named name: ByteExactString?) -> IssuerEntry? {
        (name.map { byName[$0] } ?? fallback).map { entries[$0] }
    }

    mutating func takeKeys(of remote: JWKSCache) {
        for index in entries.indices where entries[index].remote === remote { entries[index].takeRemoteKeys() }
    }

    /// The issuers of a configuration, with their configured keys.
    ///
    /// Published keys come from the ``JWKSCache`` of their URL. Keys that were already fetched are kept.
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

/// An issuer in force.
struct IssuerEntry: Sendable {
    /// The configured issuer.
    let issuer: TrustedIssuer
    let rules: TokenRules
    /// Keys that the operator configured.
    let given: [TokenKey]
    /// Keys that the issuer publishes; nil if it publishes no keys.
    let remote: JWKSCache?
    /// The configured and the published keys.
    private(set) var keys: TokenKeySet

    init(_ issuer: TrustedIssuer, rules: TokenRules, given: [TokenKey], remote: JWKSCache?) {
        self.issuer = issuer
        self.rules = rules
        self.given = given
        self.remote = remote
        keys = TokenKeySet(given + (remote?.keys ?? []))
    }

    mutating func takeRemoteKeys() {
        keys = TokenKeySet(given + (remote?.keys ?? []))
    }
}

/// An issuer whose tokens are accepted, with its keys and its organizations.
package struct TrustedIssuer: Sendable, Equatable {
    /// The organizations that an issuer's tokens may name.
    package enum Organizations: Sendable, Hashable {
        /// Every organization of the gateway.
        case any
        /// Only these organizations. The response to a token for another organization is the same as for an
        /// organization that does not exist.
        case only(Set<UUID>)

        package func covers(_ organization: UUID) -> Bool {
            switch self {
            case .any: true
            case .only(let organizations): organizations.contains(organization)
            }
        }
    }

    /// The `iss` of the issuer's tokens.
    ///
    /// If it is nil, this issuer applies to tokens without `iss`, and to tokens whose `iss` belongs to no other issuer.
    package var issuer: ByteExactString?
    /// The required value or element of the audience claim. If it is nil, the claim may have any value, or be absent.
    package var audience: ByteExactString?
    /// The claim that must be, or contain, the audience.
    package var audienceClaim = ClaimPlace(named: "aud")
    /// The claims that contain the user and the organization.
    package var places: IdentityPlaces
    /// The claim with the channels that the tokens grant; nil if they grant no channels.
    package var channels: ChannelClaim?
    /// The name under which the gateway stores the issuer's users and names of organizations.
    ///
    /// If it is nil, as usual, the issuer's own name is used. Two issuers with the same namespace, such as two domains
    /// of one provider, have the same users.
    package var namespace: ByteExactString?
    package var organizations: Organizations
    /// The secret of the issuer's HS256 tokens, at least 16 bytes; nil if HS256 is not used.
    package var secret: [UInt8]?
    /// Configured public keys, for RS256, ES256 and EdDSA.
    package var keys: [TokenKeySource]
    /// The URL at which the issuer publishes its public keys; nil if it publishes no keys.
    @Exact package var jwksURL: String?

    /// The name under which the issuer's users and names of organizations are stored.
    ///
    /// Empty for the issuer without a name.
    package var rememberedAs: ByteExactString { namespace ?? issuer ?? "" }

    /// Whether the issuer has a key that could verify its tokens.
    var hasKey: Bool { secret != nil || !keys.isEmpty || jwksURL != nil }

    /// Creates an issuer without validation. ``TokenVerifier`` validates it.
    package init(
        issuer: String?,
        audience: String? = nil,
        places: IdentityPlaces = IdentityPlaces(),
        namespace: String? = nil,
        organizations: Organizations,
        secret: [UInt8]? = nil,
        keys: [TokenKeySource] = [],
        jwksURL: String? = nil
    ) {
        self.issuer = issuer.map { ByteExactString($0) }
        self.audience = audience.map { ByteExactString($0) }
        self.places = places
        self.namespace = namespace.map { ByteExactString($0) }
        self.organizations = organizations
        self.secret = secret
        self.keys = keys
        self.jwksURL = jwksURL
    }
}

extension TrustedIssuer: CustomStringConvertible {
    /// The issuer's name only, because the members contain a secret.
    package var description: String { "TrustedIssuer(\(issuer?.string ?? "without a name"))" }
}
