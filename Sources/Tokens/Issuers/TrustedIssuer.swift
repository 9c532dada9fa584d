package import FoundationEssentials
package import SyncModel

/// An issuer whose tokens are accepted.
///
/// With the keys that sign them and the organizations that they may name.
package struct TrustedIssuer: Sendable, Equatable {
    /// The organizations that an issuer speaks for.
    package enum Organizations: Sendable, Hashable {
        /// Every organization of the gateway.
        case any
        /// Only these. A token that names another is answered as if that organization did not exist.
        case only(Set<UUID>)

        package func covers(_ organization: UUID) -> Bool {
            switch self {
            case .any: true
            case .only(let organizations): organizations.contains(organization)
            }
        }
    }

    /// The `iss` of its tokens.
    ///
    /// With nil, it issues the tokens without one and those whose `iss` is no other issuer's.
    package var issuer: ByteExactString?
    /// The required value or element of `aud`; nil accepts any value, or its absence.
    package var audience: ByteExactString?
    /// The claim that must be, or contain, the audience.
    package var audienceClaim = ClaimPlace(named: "aud")
    /// The places of user and organization.
    package var places: IdentityPlaces
    /// The name under which the gateway remembers its users and organizations' names.
    ///
    /// Nil, as a rule: its own name. Two issuers with the same namespace name the same users, as a provider's two
    /// domains do.
    package var namespace: ByteExactString?
    package var organizations: Organizations
    /// The secret of its HS256 tokens, at least 16 bytes; nil: HS256 is not used.
    package var secret: [UInt8]?
    /// Configured public keys, for RS256, ES256 and EdDSA.
    package var keys: [TokenKeySource]
    /// Where it publishes its public keys; nil: nowhere.
    @Exact package var jwksURL: String?

    /// The name under which its users and organizations' names are remembered.
    ///
    /// Empty for the issuer without a name.
    package var rememberedAs: ByteExactString { namespace ?? issuer ?? "" }

    /// Whether any key could verify its tokens.
    var hasKey: Bool { secret != nil || !keys.isEmpty || jwksURL != nil }

    /// An unchecked issuer; ``TokenVerifier`` checks it.
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
    /// Its name alone: the members hold a secret.
    package var description: String { "TrustedIssuer(\(issuer?.string ?? "without a name"))" }
}
