/// Which tokens are accepted.
package struct TokenConfiguration: Sendable, Equatable {
    /// The issuer from the settings of a single one.
    ///
    /// It is trusted for every organization, and is left out if it has no key.
    package var own: TrustedIssuer
    /// How far the issuer's clock may be off, in seconds, 0 to 600.
    ///
    /// A token lives this much longer and starts this much earlier.
    package var leewaySeconds: Int64 = 0
    /// Verified tokens that are cached at most; 0 caches none.
    ///
    /// A cached token costs no signature check. About 250 bytes each, 130 where user and organization are UUIDs.
    package var cacheCapacity: Int
    /// Issuers in addition to ``own``.
    package var otherIssuers: [TrustedIssuer]

    /// An unchecked configuration; ``TokenVerifier`` checks it.
    package init(
        secret: [UInt8]? = nil,
        keys: [TokenKeySource] = [],
        jwksURL: String? = nil,
        issuer: String? = nil,
        audience: String? = nil,
        places: IdentityPlaces = IdentityPlaces(),
        cacheCapacity: Int = 49_152,
        otherIssuers: [TrustedIssuer] = []
    ) {
        own = TrustedIssuer(
            issuer: issuer,
            audience: audience,
            places: places,
            organizations: .any,
            secret: secret,
            keys: keys,
            jwksURL: jwksURL
        )
        self.cacheCapacity = cacheCapacity
        self.otherIssuers = otherIssuers
    }

    /// All issuers whose tokens are accepted.
    package var issuers: [TrustedIssuer] { (own.hasKey ? [own] : []) + otherIssuers }
}

extension TokenConfiguration: CustomStringConvertible {
    /// The issuers' names: the members hold secrets.
    package var description: String { "TokenConfiguration(\(issuers))" }
}
