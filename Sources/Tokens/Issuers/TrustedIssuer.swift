package import FoundationEssentials

/// An issuer whose tokens are accepted, with the keys that sign them and the organizations that they may name.
package struct TrustedIssuer: Sendable, Equatable {
    /// The organizations that an issuer speaks for.
    package enum Organizations: Sendable, Equatable {
        /// Every organization of the gateway.
        case any
        /// Only these. A token that names another is answered as if that organization did not exist.
        case only(Set<UUID>)

        func covers(_ organization: UUID) -> Bool {
            switch self {
            case .any: true
            case .only(let organizations): organizations.contains(organization)
            }
        }
    }

    /// The `iss` of its tokens. With nil, it issues the tokens without one and those whose `iss` is no other issuer's.
    package var issuer: String?
    /// What `aud` must be, or contain; nil accepts any, or none.
    package var audience: String?
    /// The claim that holds the user's UUID.
    package var userClaim: String
    /// The claim that holds the organization's UUID.
    package var organizationClaim: String
    package var organizations: Organizations
    /// The secret of its HS256 tokens, at least 16 bytes; nil: it has none.
    package var secret: [UInt8]?
    /// Configured public keys, for RS256, ES256 and EdDSA.
    package var keys: [TokenKeySource]
    /// Where it publishes its public keys; nil: nowhere.
    package var jwksURL: String?

    /// Whether any key could verify its tokens.
    var hasKey: Bool { secret != nil || !keys.isEmpty || jwksURL != nil }

    /// An unchecked issuer; ``TokenVerifier`` checks it.
    package init(
        issuer: String?,
        audience: String? = nil,
        userClaim: String = "sub",
        organizationClaim: String = "org",
        organizations: Organizations,
        secret: [UInt8]? = nil,
        keys: [TokenKeySource] = [],
        jwksURL: String? = nil
    ) {
        self.issuer = issuer
        self.audience = audience
        self.userClaim = userClaim
        self.organizationClaim = organizationClaim
        self.organizations = organizations
        self.secret = secret
        self.keys = keys
        self.jwksURL = jwksURL
    }
}

extension TrustedIssuer: CustomStringConvertible {
    /// Its name alone: the members hold a secret.
    package var description: String { "TrustedIssuer(\(issuer ?? "without a name"))" }
}
