/// Which tokens are accepted.
package struct TokenConfiguration: Sendable, Equatable {
    /// The issuer that settings of one alone make; it speaks for every organization, and is left out if it has no key.
    package var own: TrustedIssuer
    /// How far the issuer's clock may be off, in seconds, 0 to 600: a token lives this much longer and starts this
    /// much earlier.
    package var leewaySeconds: Int64
    /// How many verified tokens are remembered at most; a remembered token costs no signature check. About 100
    /// bytes each; 0 remembers none.
    package var cacheCapacity: Int
    /// Issuers beside ``own``.
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
        own = TrustedIssuer(
            issuer: issuer,
            audience: audience,
            userClaim: userClaim,
            organizationClaim: organizationClaim,
            organizations: .any,
            secret: secret,
            keys: keys,
            jwksURL: jwksURL
        )
        self.leewaySeconds = leewaySeconds
        self.cacheCapacity = cacheCapacity
        self.otherIssuers = otherIssuers
    }

    /// All issuers whose tokens are accepted.
    package var issuers: [TrustedIssuer] { (own.hasKey ? [own] : []) + otherIssuers }
}

extension TokenConfiguration: CustomStringConvertible {
    /// Whose tokens are accepted: what it is made of holds secrets.
    package var description: String { "TokenConfiguration(\(issuers))" }
}
