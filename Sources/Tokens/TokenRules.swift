import SyncModel

/// The conditions on a payload; signatures are checked elsewhere.
struct TokenRules: Sendable {
    let issuer: ByteExactString?
    let audience: ByteExactString?
    let audienceClaim: ClaimPlace
    let places: IdentityPlaces
    let namespace: ByteExactString
    let organizations: TrustedIssuer.Organizations
    let leewaySeconds: Int64

    init(_ issuer: TrustedIssuer, leewaySeconds: Int64) throws {
        guard (0...600).contains(leewaySeconds) else {
            throw TokenConfigurationError("The JWT leeway must be 0 to 600 seconds.")
        }
        guard issuer.places.organization.place != issuer.places.user else {
            throw TokenConfigurationError("The JWT claims for user and organization must differ.")
        }
        self.issuer = issuer.issuer
        self.audience = issuer.audience
        self.audienceClaim = issuer.audienceClaim
        self.places = issuer.places
        self.namespace = issuer.rememberedAs
        self.organizations = issuer.organizations
        self.leewaySeconds = leewaySeconds
    }

    func claims(of payload: TokenPayload, now: Int64) throws(TokenError) -> TokenClaims {
        guard let expiresAt = try payload.seconds("exp") else { throw .missingClaim("exp") }
        guard expiresAt + leewaySeconds > now else { throw .expired }
        if let notBefore = try payload.seconds("nbf"), notBefore - leewaySeconds > now { throw .notYetValid }
        if let issuer {
            guard let found = try payload.text("iss") else { throw .missingClaim("iss") }
            guard ByteExactString(found) == issuer else { throw .wrongIssuer }
        }
        if let audience {
            let name = audienceClaim.description
            guard let found = try payload.texts(audienceClaim) else { throw .missingClaim(name) }
            guard found.contains(where: { ByteExactString($0) == audience }) else { throw .wrongAudience(claim: name) }
        }
        let organization = try payload.organization(places.organization, places.organizationForm)
        let user = try payload.user(places.user, places.userForm)
        if case .id(let id) = organization, !organizations.covers(id) { throw .organizationNotCovered }
        return TokenClaims(
            issuer: issuer,
            namespace: namespace,
            organization: organization,
            user: user,
            covered: organizations,
            expiresAt: expiresAt
        )
    }
}
