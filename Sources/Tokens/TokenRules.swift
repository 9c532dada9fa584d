/// The conditions on a payload; signatures are checked elsewhere.
struct TokenRules: Sendable {
    let issuer: String?
    let audience: String?
    let userClaim: String
    let organizationClaim: String
    let organizations: TrustedIssuer.Organizations
    let leewaySeconds: Int64

    init(_ issuer: TrustedIssuer, leewaySeconds: Int64) throws {
        guard (0...600).contains(leewaySeconds) else {
            throw TokenConfigurationError("The JWT leeway must be 0 to 600 seconds.")
        }
        guard !issuer.userClaim.isEmpty, !issuer.organizationClaim.isEmpty else {
            throw TokenConfigurationError("The names of the JWT claims for user and organization must not be empty.")
        }
        self.issuer = issuer.issuer
        self.audience = issuer.audience
        self.userClaim = issuer.userClaim
        self.organizationClaim = issuer.organizationClaim
        self.organizations = issuer.organizations
        self.leewaySeconds = leewaySeconds
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
        let organization = try payload.uuid(organizationClaim)
        let user = try payload.uuid(userClaim)
        guard organizations.covers(organization) else { throw .organizationNotCovered }
        return TokenClaims(organization: organization, user: user, expiresAt: expiresAt)
    }
}
