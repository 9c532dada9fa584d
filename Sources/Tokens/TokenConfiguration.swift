/// Which tokens are accepted.
package struct TokenConfiguration: Sendable, Equatable {
    /// The secret of HS256 tokens; at least 16 bytes, better 32 or more. Nil: no HS256 token is accepted.
    package var secret: [UInt8]?
    /// Public keys, for RS256, ES256 and EdDSA.
    package var keys: [TokenKeySource]
    /// Where more public keys are fetched from; nil: nowhere.
    package var jwksURL: String?
    /// The one `iss` that is accepted; nil accepts any that is no other issuer's, or none.
    package var issuer: String?
    /// What `aud` must be, or hold; nil accepts any, or none.
    package var audience: String?
    /// The claim that holds the user's UUID.
    package var userClaim: String
    /// The claim that holds the organization's UUID.
    package var organizationClaim: String
    /// How far the issuer's clock may be off, in seconds, 0 to 600: a token lives this much longer and starts this
    /// much earlier.
    package var leewaySeconds: Int64
    /// How many verified tokens are remembered at most; a remembered token costs no signature check. About 100
    /// bytes each; 0 remembers none.
    package var cacheCapacity: Int
    /// Issuers beside the one that the members above make.
    package var otherIssuers: [TrustedIssuer]

    /// A configuration; it is checked when a ``TokenVerifier`` is made of it.
    package init(
        secret: [UInt8]? = nil,
        keys: [TokenKeySource] = [],
        jwksURL: String? = nil,
        issuer: String? = nil,
        audience: String? = nil,
        userClaim: String = "sub",
        organizationClaim: String = "org",
        leewaySeconds: Int64 = 0,
        cacheCapacity: Int = 49_152,
        otherIssuers: [TrustedIssuer] = []
    ) {
        self.secret = secret
        self.keys = keys
        self.jwksURL = jwksURL
        self.issuer = issuer
        self.audience = audience
        self.userClaim = userClaim
        self.organizationClaim = organizationClaim
        self.leewaySeconds = leewaySeconds
        self.cacheCapacity = cacheCapacity
        self.otherIssuers = otherIssuers
    }

    /// Everybody whose tokens are accepted. The one that has its members here, which is left out if it has no key,
    /// speaks for every organization.
    package var issuers: [TrustedIssuer] {
        guard secret != nil || !keys.isEmpty || jwksURL != nil else { return otherIssuers }
        let own = TrustedIssuer(
            issuer: issuer,
            audience: audience,
            userClaim: userClaim,
            organizationClaim: organizationClaim,
            organizations: .any,
            secret: secret,
            keys: keys,
            jwksURL: jwksURL
        )
        return [own] + otherIssuers
    }
}

extension TokenConfiguration: CustomStringConvertible {
    /// Whose tokens are accepted: what it is made of holds secrets.
    package var description: String { "TokenConfiguration(\(issuers))" }
}

/// A configuration that cannot work; the text is for the operator.
package struct TokenConfigurationError: Error, Sendable, CustomStringConvertible {
    /// What is wrong and what to do, in a sentence or two; holds no secret.
    package let description: String

    init(_ description: String) {
        self.description = description
    }
}
