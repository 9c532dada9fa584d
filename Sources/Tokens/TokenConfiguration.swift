/// Which tokens are accepted.
public struct TokenConfiguration: Sendable {
    /// The secret of HS256 tokens; at least 16 bytes, better 32 or more. Nil: no HS256 token is accepted.
    public var secret: [UInt8]?
    /// Public keys, for RS256, ES256 and EdDSA.
    public var keys: [TokenKeySource]
    /// The one `iss` that is accepted; nil accepts any, or none.
    public var issuer: String?
    /// What `aud` must be, or hold; nil accepts any, or none.
    public var audience: String?
    /// The claim that holds the user's UUID.
    public var userClaim: String
    /// The claim that holds the organization's UUID.
    public var organizationClaim: String
    /// How far the issuer's clock may be off, in seconds, 0 to 600: a token lives this much longer and starts this
    /// much earlier.
    public var leewaySeconds: Int64
    /// How many verified tokens are remembered at most; a remembered token costs no signature check. About 100
    /// bytes each; 0 remembers none.
    public var cacheCapacity: Int

    /// A configuration; it is checked when a ``TokenVerifier`` is made of it.
    public init(
        secret: [UInt8]? = nil,
        keys: [TokenKeySource] = [],
        issuer: String? = nil,
        audience: String? = nil,
        userClaim: String = "sub",
        organizationClaim: String = "org",
        leewaySeconds: Int64 = 0,
        cacheCapacity: Int = 49_152
    ) {
        self.secret = secret
        self.keys = keys
        self.issuer = issuer
        self.audience = audience
        self.userClaim = userClaim
        self.organizationClaim = organizationClaim
        self.leewaySeconds = leewaySeconds
        self.cacheCapacity = cacheCapacity
    }
}

/// A configuration that cannot work; the text is for the operator.
public struct TokenConfigurationError: Error, Sendable, CustomStringConvertible {
    /// What is wrong and what to do, in a sentence or two; holds no secret.
    public let description: String

    init(_ description: String) {
        self.description = description
    }
}
