package import FoundationEssentials
import JSONText
import JWTKit
import SyncModel

/// Makes HS256 tokens with the shared secret.
///
/// They are for a developer's command line, not for production users.
package struct TokenIssuer: Sendable {
    private let issuer: TrustedIssuer
    private let key: TokenKey

    /// An issuer whose tokens a ``TokenVerifier`` of the same configuration accepts.
    ///
    /// - Throws: ``TokenConfigurationError`` when there is no secret, or it is too short.
    package init(configuration: TokenConfiguration) async throws {
        guard let secret = configuration.own.secret else {
            throw TokenConfigurationError("Tokens can only be issued with a JWT secret, and none is configured.")
        }
        issuer = configuration.own
        self.key = try await TokenKeySet.keys(secret: secret, sources: [])[0]
    }

    /// A token for this user, with the configured issuer and audience.
    ///
    /// - Parameters:
    ///   - ttlSeconds: how long it lives from `now`, in seconds; at least 1.
    ///   - now: seconds since 1970.
    /// - Throws: ``TokenConfigurationError`` where a claim's place leads into a list.
    package func issue(organization: UUID, user: UUID, ttlSeconds: Int64, now: Int64) async throws -> String {
        var payload = IssuedPayload(texts: [:], numbers: ["iat": now, "exp": now + max(1, ttlSeconds)])
        switch issuer.places.organization {
        case .claim(let place): try payload.set(.text(organization.lowercased), at: place)
        case .keys(let place): try payload.set(.object([organization.lowercased: .object([:])]), at: place)
        case .fixed: break
        }
        try payload.set(.text(user.lowercased), at: issuer.places.user)
        if let name = issuer.issuer { try payload.set(.text(name.string), at: ClaimPlace(named: "iss")) }
        if let audience = issuer.audience { try payload.set(.text(audience.string), at: issuer.audienceClaim) }
        let encoder = DefaultJWTSerializer().jsonEncoder
        let header = try encoder.encode(["alg": TokenAlgorithm.hs256.rawValue, "typ": "JWT"])
        let signed = Base64URL.encode(header) + "." + Base64URL.encode(try encoder.encode(payload))
        return signed + "." + Base64URL.encode(try key.implementation.sign(Data(signed.utf8)))
    }
}
