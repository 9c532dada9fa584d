import FoundationEssentials
import JSONText
package import SyncModel

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

extension TokenConfiguration {
    /// No token of the issuer can be for a user of this text.
    package struct UnusableSubject: Error {}

    /// The user for a text in an issuer's tokens, so that operators can admit users.
    ///
    /// It is the user that the issuer's tokens would be taken for. For an issuer that no setting names yet, the text is
    /// a subject, and also for several issuers of one name that do not agree.
    ///
    /// - Parameter issuer: as it is remembered.
    package func user(called text: ByteExactString, by issuer: ByteExactString) throws(UnusableSubject)
        -> TokenClaims.User
    {
        let forms = Set(issuers.filter { $0.rememberedAs == issuer }.map(\.places.userForm))
        guard !forms.isEmpty, !forms.contains(.mapped) else { return .subject(text) }
        if let id = UUID(parsing: text.string) { return .id(id) }
        guard forms.contains(.either) else { throw UnusableSubject() }
        return .subject(text)
    }
}

extension TokenVerifier {
    /// ``TokenConfiguration/user(called:by:)`` of the settings in force.
    package func user(
        called text: ByteExactString,
        by issuer: ByteExactString
    ) throws(TokenConfiguration.UnusableSubject) -> TokenClaims.User {
        try configuration.user(called: text, by: issuer)
    }
}

/// A configuration that cannot work; the text is for the operator.
package struct TokenConfigurationError: Error, Sendable, CustomStringConvertible {
    /// The defect and its remedy, in a sentence or two; holds no secret.
    package let description: String

    init(_ description: String) {
        self.description = description
    }
}

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
