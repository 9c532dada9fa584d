import FoundationEssentials
import JSONText
package import SyncModel

/// The settings that determine which tokens are accepted.
package struct TokenConfiguration: Sendable, Equatable {
    /// The issuer that is configured by environment variables. All other issuers are in the file of issuers.
    ///
    /// If the settings name an organization, the issuer is trusted only for this organization. If not, the issuer is
    /// trusted for every organization. An issuer without a key is ignored.
    package var own: TrustedIssuer
    /// The tolerated difference between the issuer's clock and the gateway's clock, in seconds, 0 to 600.
    ///
    /// A token is valid this much earlier and this much longer than its claims state.
    package var leewaySeconds: Int64 = 0
    /// The maximum number of verified tokens in the cache; 0 disables the cache.
    ///
    /// A cached token needs no signature check. Each cached token takes about 250 bytes, or 130 if user and
    /// organization are UUIDs.
    package var cacheCapacity: Int
    /// Issuers in addition to ``own``.
    package var otherIssuers: [TrustedIssuer]

    /// Creates a configuration without validation. ``TokenVerifier`` validates it.
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
    /// The issuers' names only, because the members contain secrets.
    package var description: String { "TokenConfiguration(\(issuers))" }
}

extension TokenConfiguration {
    /// Thrown if no token of the issuer can identify a user by this text.
    package struct UnusableSubject: Error {}

    /// The issuers for which a UUID in the claim of the user is the user's id. The set contains the names under which
    /// these issuers are stored.
    package var uuidIssuers: Set<ByteExactString> {
        Set(issuers.map(\.rememberedAs)).subtracting(
            issuers.filter { $0.places.userForm == .mapped }.map(\.rememberedAs)
        )
    }

    /// Returns the user whom an issuer's tokens identify by a text, so that operators can provision users.
    ///
    /// The text is interpreted as a subject in two cases: if the settings do not contain the issuer yet, or if several
    /// issuers with the same name interpret the text differently.
    ///
    /// - Parameter issuer: the name under which the issuer is stored.
    package func user(called text: ByteExactString, by issuer: ByteExactString) throws(UnusableSubject)
        -> TokenClaims.User
    {
        let forms = Set(issuers.filter { $0.rememberedAs == issuer }.map(\.places.userForm))
        guard uuidIssuers.contains(issuer) else { return .subject(text) }
        if let id = UUID(parsing: text.string) { return .id(id) }
        guard forms.contains(.either) else { throw UnusableSubject() }
        return .subject(text)
    }
}

extension TokenVerifier {
    /// The result of ``TokenConfiguration/uuidIssuers`` for the settings in force.
    package var uuidIssuers: Set<ByteExactString> { configuration.uuidIssuers }

    /// Returns the result of ``TokenConfiguration/user(called:by:)`` for the settings in force.
    package func user(
        called text: ByteExactString,
        by issuer: ByteExactString
    ) throws(TokenConfiguration.UnusableSubject) -> TokenClaims.User {
        try configuration.user(called: text, by: issuer)
    }
}

/// The error of a configuration that cannot work, with a text for the operator.
package struct TokenConfigurationError: Error, Sendable, CustomStringConvertible {
    /// The defect and its remedy, in a sentence or two, without secrets.
    package let description: String

    init(_ description: String) {
        self.description = description
    }
}

/// The conditions on a payload. ``TokenVerifier`` verifies the signature.
struct TokenRules: Sendable {
    let issuer: ByteExactString?
    let audience: ByteExactString?
    let audienceClaim: ClaimPlace
    let places: IdentityPlaces
    let channels: ChannelClaim?
    let namespace: ByteExactString
    let organizations: TrustedIssuer.Organizations
    let leewaySeconds: Int64
    /// The seconds by which an issuer's clock may be ahead if the time of issue determines which token is newer.
    private static let issueSkew: Int64 = 60

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
        self.channels = issuer.channels
        self.namespace = issuer.rememberedAs
        self.organizations = issuer.organizations
        self.leewaySeconds = leewaySeconds
    }

    func claims(of payload: TokenPayload, now: Int64) throws(TokenError) -> TokenClaims {
        guard let expiresAt = try payload.seconds("exp") else { throw .missingClaim("exp") }
        guard expiresAt + leewaySeconds > now else { throw .expired }
        if let notBefore = try payload.seconds("nbf"), notBefore - leewaySeconds > now {
            throw .notYetValid(claim: "nbf")
        }
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
        var granted: TokenChannels?
        if let channels {
            let issuedAt = try payload.seconds("iat")
            // the newest token decides: a token with a time in the future would stay the newest token, and later tokens
            // could not end its grants
            if let issuedAt, issuedAt - max(leewaySeconds, Self.issueSkew) > now { throw .notYetValid(claim: "iat") }
            // without `iat`, the expiry determines which token is newer, because a later token expires later
            granted = try payload.channels(channels, issuedAt: issuedAt ?? expiresAt)
        }
        return TokenClaims(
            issuer: issuer,
            namespace: namespace,
            organization: organization,
            user: user,
            covered: organizations,
            expiresAt: expiresAt,
            channels: granted
        )
    }
}
