import Synchronization

/// Decides whose a bearer token is.
///
/// Accepts HS256 by the secret, and RS256, ES256 and EdDSA by public keys, each key for its own algorithm only;
/// `exp` is required, `nbf` honoured, `iss` and `aud` checked when configured. Everything is synchronous: a token
/// that was verified before costs a hash and a look-up (about a microsecond), a new one a signature check (tens).
/// Refusals are not remembered.
public final class TokenVerifier: Sendable {
    /// Longer tokens are refused unread.
    public static let maximumTokenBytes = 8_192

    private struct State {
        var keys: TokenKeySet
        var cache: TokenCache<TokenDigest, TokenClaims>
        /// Counts key changes, so that a verdict by an old key set is not remembered after the change.
        var epoch = 0
    }

    private let rules: TokenRules
    private let secret: [UInt8]?
    private let state: Mutex<State>

    /// A verifier with the configured keys.
    ///
    /// - Throws: ``TokenConfigurationError`` when no key is configured or one is unusable.
    public init(configuration: TokenConfiguration) async throws {
        self.rules = try TokenRules(configuration)
        self.secret = configuration.secret
        let keys = try await TokenKeySet(secret: configuration.secret, sources: configuration.keys)
        self.state = Mutex(State(keys: keys, cache: TokenCache(capacity: configuration.cacheCapacity)))
    }

    /// Puts other public keys in force, for a key file or URL that has changed; the secret stays. Every remembered
    /// token is forgotten.
    ///
    /// - Throws: ``TokenConfigurationError``; the keys are then what they were.
    public func replaceKeys(_ sources: [TokenKeySource]) async throws {
        let keys = try await TokenKeySet(secret: secret, sources: sources)
        state.withLock {
            $0.keys = keys
            $0.cache.removeAll()
            $0.epoch += 1
        }
    }

    /// The claims of a token that was verified before and is still valid; nil says nothing about any other token.
    ///
    /// - Parameter now: seconds since 1970.
    public func cached(_ token: Substring, now: Int64) -> TokenClaims? {
        guard token.utf8.count <= Self.maximumTokenBytes else { return nil }
        return cached(Self.digest(of: token), now: now)
    }

    /// The claims of a token that was verified before and is still valid; nil says nothing about any other token.
    ///
    /// - Parameter now: seconds since 1970.
    public func cached(_ token: String, now: Int64) -> TokenClaims? {
        cached(token[...], now: now)
    }

    /// The claims of a token, verified now or before.
    ///
    /// - Parameters:
    ///   - token: what follows `Bearer ` in the header.
    ///   - now: seconds since 1970.
    public func verify(_ token: Substring, now: Int64) throws(TokenError) -> TokenClaims {
        guard !token.isEmpty else { throw .missing }
        guard token.utf8.count <= Self.maximumTokenBytes else { throw .malformed }
        let digest = Self.digest(of: token)
        if let claims = cached(digest, now: now) { return claims }
        let (keys, epoch) = state.withLock { ($0.keys, $0.epoch) }
        let claims = try Self.verify(Array(token.utf8), keys: keys, rules: rules, now: now)
        state.withLock {
            if $0.epoch == epoch { $0.cache.insert(claims, for: digest) }
        }
        return claims
    }

    /// The claims of a token, verified now or before.
    ///
    /// - Parameters:
    ///   - token: what follows `Bearer ` in the header.
    ///   - now: seconds since 1970.
    public func verify(_ token: String, now: Int64) throws(TokenError) -> TokenClaims {
        try verify(token[...], now: now)
    }

    /// How many verified tokens are remembered now, for a gauge.
    public var cachedTokens: Int {
        state.withLock { $0.cache.count }
    }

    private func cached(_ digest: TokenDigest, now: Int64) -> TokenClaims? {
        state.withLock { state in
            guard let claims = state.cache.find(digest) else { return nil }
            if rules.isExpired(claims, now: now) {
                state.cache.remove(digest)
                return nil
            }
            return claims
        }
    }

    private static func digest(of token: Substring) -> TokenDigest {
        var token = token
        return token.withUTF8 { TokenDigest(UnsafeRawBufferPointer($0)) }
    }

    /// The signature comes first: nothing that a stranger wrote is parsed beyond the header.
    private static func verify(
        _ token: [UInt8],
        keys: TokenKeySet,
        rules: TokenRules,
        now: Int64
    ) throws(TokenError) -> TokenClaims {
        let text = try TokenText(token)
        let candidates = try keys.candidates(algorithm: text.header.alg, id: text.header.kid)
        guard candidates.contains(where: { $0.verifies(text.signature, of: text.signed) }) else { throw .badSignature }
        return try rules.claims(of: TokenPayload(text.payload), now: now)
    }
}
