package import FoundationEssentials
import JSONText
import JWTKit
package import SyncModel
import Synchronization

/// Creates HS256 tokens with the shared secret.
///
/// The tokens are for a developer's command line, not for production users.
package struct TokenIssuer: Sendable {
    private let issuer: TrustedIssuer
    private let key: TokenKey

    /// Creates an issuer whose tokens a ``TokenVerifier`` of the same configuration accepts.
    ///
    /// - Throws: ``TokenConfigurationError`` if there is no secret, or if the secret is too short.
    package init(configuration: TokenConfiguration) async throws {
        guard let secret = configuration.own.secret else {
            throw TokenConfigurationError("Tokens can only be issued with a JWT secret, and none is configured.")
        }
        issuer = configuration.own
        self.key = try await TokenKeySet.keys(secret: secret, sources: [])[0]
    }

    /// Creates a token for a user, with the configured issuer and audience.
    ///
    /// - Parameters:
    ///   - ttlSeconds: the lifetime from `now`, in seconds; at least 1.
    ///   - now: seconds since 1970.
    /// - Throws: ``TokenConfigurationError`` if the path of a claim leads into a list.
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

/// The claims of a new token, with names from the settings.
struct IssuedPayload: Encodable {
    /// A claim's value.
    enum Value: Encodable {
        case text(String)
        case number(Int64)
        case object([String: Value])

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            switch self {
            case .text(let text): try container.encode(text)
            case .number(let number): try container.encode(number)
            case .object(let members): try container.encode(members)
            }
        }
    }

    private var members: [String: Value]

    init(texts: [String: String], numbers: [String: Int64]) {
        members = texts.mapValues(Value.text).merging(numbers.mapValues(Value.number)) { text, _ in text }
    }

    func encode(to encoder: any Encoder) throws { try members.encode(to: encoder) }

    /// Sets a value at a path, and creates missing objects on the path.
    ///
    /// - Throws: ``TokenConfigurationError`` if the path leads into a list, or if a step of the path is already another
    ///   claim's value.
    mutating func set(_ value: Value, at place: ClaimPlace) throws(TokenConfigurationError) {
        var names: [String] = []
        for step in place.query.steps {
            guard case .member(let name) = step else {
                throw TokenConfigurationError("No token can be made with a claim at \(place): it leads into a list.")
            }
            names.append(name)
        }
        guard let set = Self.setting(value, at: names[...], in: members) else {
            throw TokenConfigurationError("No token can be made with a claim at \(place): another claim is in the way.")
        }
        members = set
    }

    private static func setting(
        _ value: Value,
        at names: ArraySlice<String>,
        in members: [String: Value]
    ) -> [String: Value]? {
        guard let name = names.first else { return nil }
        var members = members
        if names.count == 1 {
            guard members[name] == nil else { return nil }
            members[name] = value
            return members
        }
        guard case .object(let inner) = members[name] ?? .object([:]),
            let set = setting(value, at: names.dropFirst(), in: inner)
        else { return nil }
        members[name] = .object(set)
        return members
    }
}

/// Creates the tokens that identify a request's user to an upstream.
///
/// The tokens are short-lived JWTs, signed with the gateway's own key. The public half of the key is published.
package final class RequestSigner: Sendable {
    /// The `iss` of the signer's tokens.
    package static let issuer = "sluice"
    /// The lifetime of a token, in seconds.
    package static let lifetimeSeconds: Int64 = 300
    /// The minimum remaining lifetime of a cached token that is used for a request, in seconds.
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
    /// The encoded header and the dot after it, which are the same for all tokens.
    private let prefix: String
    private let cache = Mutex(GenerationCache<Bearer, Token>(capacity: rememberedTokens))

    /// Creates a signer with the private key of a PEM file.
    ///
    /// A P-256 key signs with ES256, an Ed25519 key with EdDSA, and an RSA key of at least 2048 bits with RS256.
    ///
    /// - Throws: ``TokenConfigurationError`` for any other key, and if the file does not contain exactly one private
    ///   key.
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

    /// Returns a token for requests on behalf of a user, valid for at least another minute.
    ///
    /// For each user, a token is signed once in four minutes. If the tokens of many other users have evicted it from
    /// the cache, a token is signed again earlier.
    ///
    /// - Throws: errors of JWTKit. Signing with an accepted key does not fail.
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
