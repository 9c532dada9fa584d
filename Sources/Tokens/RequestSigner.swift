package import FoundationEssentials
import JWTKit
package import SyncModel
import Synchronization

/// Makes the tokens that identify a request's user to upstreams.
///
/// They are short-lived JWTs, signed with the gateway's own key, whose public half is published.
package final class RequestSigner: Sendable {
    /// The `iss` of its tokens.
    package static let issuer = "sluice"
    /// How long a token lives, in seconds.
    package static let lifetimeSeconds: Int64 = 300
    /// The least remaining life of a token for another request, in seconds.
    private static let reserveSeconds: Int64 = 60
    private static let rememberedTokens = 10_000

    private struct Bearer: Hashable {
        let organization: UUID
        let user: UUID
    }

    private struct Token {
        let text: String
        let expiresAt: Int64
    }

    package let jwks: [UInt8]
    /// The JWKS document of a gateway without a key.
    package static let noKeys = Array(#"{"keys":[]}"#.utf8)

    private let key: SigningKey
    private let userClaim: String
    private let organizationClaim: String
    private let now: TimeSource
    /// Header and dot, the same for all tokens.
    private let prefix: String
    private let cache = Mutex(GenerationCache<Bearer, Token>(capacity: rememberedTokens))

    /// A signer with the private key of a PEM file.
    ///
    /// EC on P-256 signs by ES256, Ed25519 by EdDSA, RSA of at least 2048 bits by RS256.
    ///
    /// - Throws: ``TokenConfigurationError`` for any other key, and where there is not exactly one.
    package init(
        pem: TokenKeySource,
        userClaim: String = "sub",
        organizationClaim: String = "org",
        now: @escaping TimeSource
    ) async throws {
        let key = try await SigningKey(pem: pem)
        self.key = key
        self.userClaim = userClaim
        self.organizationClaim = organizationClaim
        self.now = now
        jwks = key.jwks
        prefix =
            Base64URL.encode(Array(#"{"alg":"\#(key.algorithm.rawValue)","kid":"\#(key.id)","typ":"JWT"}"#.utf8)) + "."
    }

    /// A token for requests on behalf of a user, good for at least another minute.
    ///
    /// Signed once in four minutes for each user, unless too many other users push it out of the cache.
    ///
    /// - Throws: what JWTKit throws when it cannot sign; with an accepted key, nothing.
    package func sign(organization: UUID, user: UUID) async throws -> String {
        let bearer = Bearer(organization: organization, user: user)
        let now = now().seconds
        let known = cache.withLock { $0.find(bearer) }
        if let known, known.expiresAt - Self.reserveSeconds > now { return known.text }
        let token = try token(for: bearer, now: now)
        cache.withLock { $0.insert(token, for: bearer) }
        return token.text
    }

    private func token(for bearer: Bearer, now: Int64) throws -> Token {
        let expiresAt = now + Self.lifetimeSeconds
        let payload = IssuedPayload(
            texts: [
                "iss": Self.issuer,
                "jti": UUID().uuidString.lowercased(),
                userClaim: bearer.user.uuidString.lowercased(),
                organizationClaim: bearer.organization.uuidString.lowercased(),
            ],
            numbers: ["iat": now, "exp": expiresAt]
        )
        let claims = try DefaultJWTSerializer().jsonEncoder.encode(payload)
        let signed = prefix + Base64URL.encode(claims)
        let signature = try key.implementation.sign(Data(signed.utf8))
        return Token(text: signed + "." + Base64URL.encode(signature), expiresAt: expiresAt)
    }
}
