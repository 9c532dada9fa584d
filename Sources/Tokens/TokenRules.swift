/// What a payload must say to be accepted; the signature is somebody else's.
struct TokenRules: Sendable {
    let issuer: String?
    let audience: String?
    let userClaim: String
    let organizationClaim: String
    let leewaySeconds: Int64

    init(_ configuration: TokenConfiguration) throws {
        guard (0...600).contains(configuration.leewaySeconds) else {
            throw TokenConfigurationError("The JWT leeway must be 0 to 600 seconds.")
        }
        guard !configuration.userClaim.isEmpty, !configuration.organizationClaim.isEmpty else {
            throw TokenConfigurationError("The names of the JWT claims for user and organization must not be empty.")
        }
        self.issuer = configuration.issuer
        self.audience = configuration.audience
        self.userClaim = configuration.userClaim
        self.organizationClaim = configuration.organizationClaim
        self.leewaySeconds = configuration.leewaySeconds
    }

    /// RFC 7519: a token is expired on and after `exp`, and valid on and after `nbf`.
    func isExpired(_ claims: TokenClaims, now: Int64) -> Bool {
        claims.expiresAt + leewaySeconds <= now
    }

    func claims(of payload: TokenPayload, now: Int64) throws(TokenError) -> TokenClaims {
        guard let expiresAt = try payload.seconds("exp") else { throw .missingClaim("exp") }
        guard expiresAt + leewaySeconds > now else { throw .expired }
        if let notBefore = try payload.seconds("nbf"), notBefore - leewaySeconds > now { throw .notYetValid }
        if let issuer {
            guard let found = try payload.text("iss") else { throw .missingClaim("iss") }
            guard found == issuer else { throw .wrongIssuer }
        }
        if let audience {
            guard let found = try payload.texts("aud") else { throw .missingClaim("aud") }
            guard found.contains(audience) else { throw .wrongAudience }
        }
        return TokenClaims(
            organization: try payload.uuid(organizationClaim),
            user: try payload.uuid(userClaim),
            expiresAt: expiresAt
        )
    }
}
