import Crypto
package import FoundationEssentials
package import SyncModel
import Synchronization

/// Verifies bearer tokens, and returns their claims.
///
/// It accepts HS256 with the secret, and RS256, ES256 and EdDSA with public keys. Each key is used only for its own
/// algorithm and its own issuer. `exp` is required, `nbf` is honored, and `iss` and `aud` are checked if configured.
///
/// A cached token costs a hash and a look-up (about a microsecond). A new token costs a signature check (tens of
/// microseconds). A token whose key is unknown may wait for newer keys of its issuer. Refusals are not cached.
package final class TokenVerifier: Sendable {
    /// The maximum length of a token, in bytes. Longer tokens are refused without being read.
    package static let maximumTokenBytes = 8_192

    struct State {
        var configuration: TokenConfiguration
        var table: IssuerTable
        /// Caches of published keys, by URL.
        var remotes: [ByteExactString: JWKSCache]
        var cache: GenerationCache<TokenDigest, TokenClaims>
        /// The number of key changes. If this number changes while a token is verified, the result is not cached.
        var epoch = 0
        /// The number of fetches, by result.
        var refreshes: [JWKSCacheState.Outcome: Int] = [:]

        mutating func forget() {
            cache.removeAll()
            epoch += 1
        }
    }

    /// The reason why a token is refused.
    ///
    /// If the token might be accepted with newer keys, `remote` is the cache of the issuer's published keys.
    struct Refused: Error {
        let reason: TokenError
        var remote: JWKSCache?
    }

    /// Wakes a ``JWKSRefresher``, which then checks for due fetches.
    let wakes: AsyncStream<Void>
    let wake: AsyncStream<Void>.Continuation
    private let leewaySeconds: Int64
    let state: Mutex<State>

    /// Creates a verifier with the configured keys.
    ///
    /// Published keys are fetched later (``JWKSRefresher``).
    ///
    /// - Throws: ``TokenConfigurationError`` if no key is configured, or if a key is unusable.
    package init(configuration: TokenConfiguration) async throws {
        (wakes, wake) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
        leewaySeconds = configuration.leewaySeconds
        let (table, remotes) = try await IssuerTable.table(configuration, known: [:], wake: wake)
        let cache = GenerationCache<TokenDigest, TokenClaims>(capacity: configuration.cacheCapacity)
        state = Mutex(State(configuration: configuration, table: table, remotes: remotes, cache: cache))
    }

    /// Replaces the issuers and keys in force, after files have changed.
    ///
    /// Leeway and capacity do not change. Keys are kept if they were fetched from a URL that is still configured. All
    /// cached tokens are removed.
    ///
    /// - Throws: ``TokenConfigurationError``; in this case nothing changes.
    package func replace(_ configuration: TokenConfiguration) async throws {
        let known = state.withLock { $0.remotes }
        let (table, remotes) = try await IssuerTable.table(configuration, known: known, wake: wake)
        state.withLock { state in
            state.configuration = configuration
            state.table = table
            state.remotes = remotes
            // keys may have been fetched while the table was created
            for remote in remotes.values { state.table.takeKeys(of: remote) }
            state.forget()
        }
        wake.yield()
    }

    // MARK: - Verifying

    /// Returns the claims of a token. If the claims are not cached, the token is verified.
    ///
    /// If a token names an unknown key, the call may wait up to 3 seconds for newer keys of the issuer
    /// (``JWKSCacheState``).
    ///
    /// - Parameter token: the text after `Bearer ` in the header.
    package func verifyOrFetch(_ token: Substring, now: Timestamp) async throws(TokenError) -> TokenClaims {
        do throws(Refused) {
            return try decide(token, now: now)
        } catch {
            guard let remote = error.remote, await remote.demand(at: now) else { throw error.reason }
            return try verify(token, now: now)
        }
    }

    /// Returns the claims of a token. If the claims are not cached, the token is verified with the keys that are
    /// available.
    package func verify(_ token: Substring, now: Timestamp) throws(TokenError) -> TokenClaims {
        do throws(Refused) {
            return try decide(token, now: now)
        } catch {
            throw error.reason
        }
    }

    /// Returns the cached claims of a token that is still valid.
    ///
    /// A token without cached claims may be valid, too.
    package func knownClaims(_ token: Substring, now: Timestamp) -> TokenClaims? {
        cached(Self.digest(of: token), now: now.seconds)
    }

    /// Whether the issuer of verified claims is still trusted for an organization.
    ///
    /// The issuer must also still be stored under the same name. This method checks only the settings. A long request
    /// calls this method again, because the settings may have changed while the request was running.
    package func stillAccepts(
        _ issuer: ByteExactString?,
        storedAs namespace: ByteExactString,
        for organization: UUID
    ) -> Bool {
        guard let rules = state.withLock({ $0.table.issuer(named: issuer)?.rules }) else { return false }
        return rules.namespace == namespace && rules.organizations.covers(organization)
    }

    /// The number of verified tokens in the cache, for a gauge.
    package var cachedTokens: Int {
        state.withLock { $0.cache.count }
    }

    private func decide(_ token: Substring, now: Timestamp) throws(Refused) -> TokenClaims {
        try Self.checkSize(of: token)
        let digest = Self.digest(of: token)
        if let claims = cached(digest, now: now.seconds) { return claims }
        let (table, epoch) = state.withLock { ($0.table, $0.epoch) }
        var findings = TokenFindings()
        let claims = try Self.decide(Array(token.utf8), table: table, now: now, &findings)
        state.withLock {
            if $0.epoch == epoch { $0.cache.insert(claims, for: digest) }
        }
        return claims
    }

    /// Returns the cached claims of a token that is still valid.
    ///
    /// A token without cached claims may be valid, too.
    func cached(_ digest: TokenDigest, now: Int64) -> TokenClaims? {
        state.withLock { state in
            guard let claims = state.cache.find(digest) else { return nil }
            // RFC 7519: a token is expired on and after `exp`
            if claims.expiresAt + leewaySeconds <= now {
                state.cache.remove(digest)
                return nil
            }
            return claims
        }
    }

    static func digest(of token: Substring) -> TokenDigest {
        var token = token
        return token.withUTF8 { TokenDigest(UnsafeRawBufferPointer($0)) }
    }

    /// Verifies a token: first its signature, then its claims.
    ///
    /// Until the signature is verified, only the header is used and, if there are several issuers, the issuer's name.
    ///
    /// - Parameter findings: receives the facts about the token, also if the token is refused.
    static func decide(
        _ token: [UInt8],
        table: IssuerTable,
        now: Timestamp,
        _ findings: inout TokenFindings
    ) throws(Refused) -> TokenClaims {
        let text = try refusing { () throws(TokenError) in try TokenText(token) }
        findings.text = text
        let (issuer, payload) = try refusing { () throws(TokenError) in try table.issuer(of: text) }
        findings.entry = issuer
        if let refused = refusal(of: text, by: issuer, now: now, &findings.key) { throw refused }
        return try refusing { () throws(TokenError) in
            let payload = if let payload { payload } else { try TokenPayload(text.payload) }
            return try issuer.rules.claims(of: payload, now: now.seconds)
        }
    }

    static func checkSize(of token: Substring) throws(Refused) {
        guard !token.isEmpty else { throw Refused(reason: .missing) }
        guard token.utf8.count <= maximumTokenBytes else { throw Refused(reason: .tooLong) }
    }

    private static func refusing<Value>(_ body: () throws(TokenError) -> Value) throws(Refused) -> Value {
        do throws(TokenError) {
            return try body()
        } catch {
            throw Refused(reason: error)
        }
    }

    /// Returns the reason why a token's signature is refused; nil if the signature is valid.
    ///
    /// - Parameter key: receives the key that made the signature.
    private static func refusal(
        of text: TokenText,
        by issuer: IssuerEntry,
        now: Timestamp,
        _ key: inout TokenKey?
    ) -> Refused? {
        let reason: TokenError
        do throws(TokenError) {
            let candidates = try issuer.keys.candidates(algorithm: text.header.alg, id: text.header.kid)
            key = candidates.first { $0.verifies(text.signature, of: text.signed) }
            if key != nil { return nil }
            reason = .badSignature
        } catch {
            reason = error
        }
        // secrets are never published, so fetched keys cannot help
        guard let remote = issuer.remote, TokenAlgorithm(rawValue: text.header.alg)?.isAsymmetric == true else {
            return Refused(reason: reason)
        }
        if remote.keys == nil {
            return Refused(reason: .keysUnavailable(retryAfter: remote.secondsUntilDue(at: now)))
        }
        let isUnknown = text.header.kid.map { !issuer.keys.contains($0) } ?? false
        return Refused(reason: isUnknown ? .unknownKey : reason, remote: isUnknown ? remote : nil)
    }
}

/// Fetched keys.
extension TokenVerifier {
    /// The caches of the URLs from which keys are fetched.
    var remotes: [JWKSCache] { state.withLock { Array($0.remotes.values) } }

    /// Replaces the keys of a URL with the fetched keys.
    func takeKeys(of remote: JWKSCache) {
        state.withLock { state in
            state.table.takeKeys(of: remote)
            state.forget()
        }
    }

    func count(_ outcome: JWKSCacheState.Outcome) {
        state.withLock { $0.refreshes[outcome, default: 0] += 1 }
    }

    var configuration: TokenConfiguration { state.withLock { $0.configuration } }

    /// Makes the ``JWKSRefresher`` check for due fetches.
    func findWork() { wake.yield() }

    package struct KeyReport: Sendable {
        /// URLs, without their queries, whose keys have never been fetched.
        package var missing: [String] = []
        /// URLs, without their queries, at which the issuer publishes no usable key.
        ///
        /// Such an issuer has withdrawn all of its keys.
        package var empty: [String] = []
        /// Whether no key is available, so that no token can be verified.
        package var isWithoutKeys = false
        /// The number of providers whose keys are fetched.
        package var providers = 0
        /// The time of the oldest fetched key set; nil if no key set was fetched.
        package var oldest: Timestamp?
        /// The number of fetches by result: `changed`, `unchanged` or `failed`.
        package var refreshes: [(outcome: String, count: Int)] = []
    }

    /// The state of fetched keys, for health and metrics.
    package var keyReport: KeyReport {
        let (remotes, entries, refreshes) = state.withLock {
            (Array($0.remotes.values), $0.table.entries, $0.refreshes)
        }
        var report = KeyReport()
        report.providers = remotes.count
        report.missing = remotes.filter { $0.keys == nil }.map { KeySetURL.shown($0.url) }.sorted()
        report.empty = remotes.filter { $0.keys?.isEmpty == true }.map { KeySetURL.shown($0.url) }.sorted()
        report.isWithoutKeys = entries.allSatisfy(\.keys.keys.isEmpty)
        report.oldest = remotes.compactMap(\.freshAt).min()
        report.refreshes = JWKSCacheState.Outcome.allCases.map { ($0.rawValue, refreshes[$0] ?? 0) }
        return report
    }
}

/// The SHA-256 of a token's text: the key of cached tokens.
///
/// Because the cache has only this hash, a memory dump of the cache contains no token.
struct TokenDigest: Hashable, Sendable {
    private let words: (UInt64, UInt64, UInt64, UInt64)

    init(_ text: UnsafeRawBufferPointer) {
        var hash = SHA256()
        hash.update(bufferPointer: text)
        self.words = hash.finalize().withUnsafeBytes { $0.loadUnaligned(as: (UInt64, UInt64, UInt64, UInt64).self) }
    }

    static func == (left: Self, right: Self) -> Bool {
        left.words == right.words
    }

    /// One word is sufficient, because it is uniformly distributed, and only verified tokens are cached.
    func hash(into hasher: inout Hasher) {
        hasher.combine(words.0)
    }
}
