package import FoundationEssentials
import JWTKit

/// Makes HS256 tokens with the shared secret: for a developer's command line, not for production users.
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
    /// - Throws: what JWTKit throws when it cannot sign; with a checked secret, nothing.
    package func issue(organization: UUID, user: UUID, ttlSeconds: Int64, now: Int64) async throws -> String {
        var texts = [
            issuer.organizationClaim: organization.uuidString.lowercased(),
            issuer.userClaim: user.uuidString.lowercased(),
        ]
        texts["iss"] = issuer.issuer
        texts["aud"] = issuer.audience
        let payload = IssuedPayload(texts: texts, numbers: ["iat": now, "exp": now + max(1, ttlSeconds)])
        let encoder = DefaultJWTSerializer().jsonEncoder
        let header = try encoder.encode(["alg": TokenAlgorithm.hs256.rawValue, "typ": "JWT"])
        let signed = Base64URL.encode(header) + "." + Base64URL.encode(try encoder.encode(payload))
        return signed + "." + Base64URL.encode(try key.implementation.sign(Data(signed.utf8)))
    }
}
