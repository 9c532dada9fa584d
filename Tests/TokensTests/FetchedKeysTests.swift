import Crypto
import CryptoExtras
import Foundation
import Logging
import SyncModel
import Synchronization
import Testing

@testable import Tokens

/// A provider of keys with scripted answers, which counts requests.
final class FakeProvider: Sendable {
    private struct State {
        var answer = KeySetAnswer.failed("no server listens")
        var calls = 0
        var etags: [String?] = []
    }

    private let state = Mutex(State())

    var calls: Int { state.withLock { $0.calls } }
    var etags: [String?] { state.withLock { $0.etags } }

    func answer(_ answer: KeySetAnswer) { state.withLock { $0.answer = answer } }

    func publish(_ members: [String: Any]..., etag: String? = nil, cacheControl: String? = nil) throws {
        answer(.document(Array(try json(["keys": members])), etag: etag, cacheControl: cacheControl))
    }

    func fetch(_ url: String, _ etag: String?) async -> KeySetAnswer {
        state.withLock {
            $0.calls += 1
            $0.etags.append(etag)
            return $0.answer
        }
    }
}

@Suite("Fetched keys", .timeLimit(.minutes(10)))
struct FetchedKeysTests {
    static let url = "https://id.example/keys"
    let provider = FakeProvider()
    let first = P256.Signing.PrivateKey()
    let second = P256.Signing.PrivateKey()

    private func verifier(_ change: (inout TokenConfiguration) -> Void = { _ in }) async throws -> TokenVerifier {
        var configuration = TokenConfiguration(jwksURL: Self.url)
        change(&configuration)
        return try await TokenVerifier(configuration: configuration)
    }

    private func token(_ key: P256.Signing.PrivateKey, _ id: String) throws -> String {
        try TestKey.es256(key).token(claims(["exp": now + 100_000]), header: ["kid": id])
    }

    /// Fetches the keys if they are due, as one step of ``JWKSRefresher`` does.
    private func fetch(_ verifier: TokenVerifier, at seconds: Double) async -> JWKSCacheState.Outcome? {
        let moment = Timestamp(microseconds: now * 1_000_000).adding(seconds: seconds)
        guard let remote = verifier.remotes.first, let start = remote.begin(at: moment) else { return nil }
        let result = await remote.finish(await provider.fetch(remote.url, start.etag), at: moment)
        if result.outcome == .changed { verifier.takeKeys(of: remote) }
        remote.release()
        return result.outcome
    }

    @Test
    func `Before keys are fetched, a token that may be valid is not refused as invalid`() async throws {
        let verifier = try await verifier { $0.own.secret = Keys.secret }
        #expect(verifier.refusal(try token(first, "1")) == .keysUnavailable(retryAfter: 1))
        #expect(verifier.refusal(try TestKey.hs256(Keys.secret).token(claims())) == nil)
        #expect(verifier.refusal(try TestKey.hs256([1, 2, 3]).token(claims())) == .badSignature)
        #expect(verifier.refusal("x.y.z") == .malformed)
        let unsigned = TestKey(algorithm: "none") { _ in Data() }
        #expect(verifier.refusal(try unsigned.token(claims())) == .algorithmNotAllowed)
        #expect(verifier.keyReport.missing == [Self.url])
        #expect(!verifier.keyReport.isWithoutKeys)
        #expect(try await self.verifier().keyReport.isWithoutKeys)

        #expect(await fetch(verifier, at: 0) == .failed)
        #expect(verifier.refusal(try token(first, "1")) == .keysUnavailable(retryAfter: 2))
        try provider.publish(Keys.jwk(first.publicKey, id: "1"))
        #expect(await fetch(verifier, at: 2) == .changed)
        #expect(verifier.refusal(try token(first, "1")) == nil)
        #expect(verifier.keyReport.missing == [])
    }

    @Test
    func `A byte order mark before a key set is ignored`() async throws {
        let document = Array(try json(["keys": [Keys.jwk(first.publicKey, id: "1")]]))
        provider.answer(.document([0xef, 0xbb, 0xbf] + document, etag: nil, cacheControl: nil))
        let verifier = try await verifier()
        #expect(await fetch(verifier, at: 0) == .changed)
        #expect(verifier.refusal(try token(first, "1")) == nil)
        provider.answer(.document(document, etag: nil, cacheControl: nil))
        #expect(await fetch(verifier, at: 1_000) == .unchanged, "it is the same document")
    }

    @Test
    func `A withdrawn key is refused, cached or not; a new one is accepted`() async throws {
        try provider.publish(Keys.jwk(first.publicKey, id: "1"))
        let verifier = try await verifier()
        #expect(await fetch(verifier, at: 0) == .changed)
        #expect(verifier.refusal(try token(first, "1")) == nil)
        #expect(verifier.cachedTokens == 1)
        #expect(await fetch(verifier, at: 1_000) == .unchanged)
        #expect(verifier.cachedTokens == 1, "nothing has changed")
        try provider.publish(Keys.jwk(second.publicKey, id: "2"))
        #expect(await fetch(verifier, at: 2_000) == .changed)
        #expect(verifier.cachedTokens == 0)
        #expect(verifier.refusal(try token(first, "1")) == .unknownKey)
        #expect(verifier.refusal(try token(second, "2")) == nil)
    }

    @Test
    func `Requests contain the ETag, and an unchanged key set stays`() async throws {
        try provider.publish(Keys.jwk(first.publicKey, id: "1"), etag: "\"a\"")
        let verifier = try await verifier()
        #expect(await fetch(verifier, at: 0) == .changed)
        provider.answer(.unchanged(cacheControl: "max-age=120"))
        #expect(await fetch(verifier, at: 600) == .unchanged)
        #expect(await fetch(verifier, at: 690) == nil)
        #expect(await fetch(verifier, at: 720) == .unchanged)
        #expect(provider.etags == [nil, "\"a\"", "\"a\""])
        #expect(verifier.refusal(try token(first, "1")) == nil)
    }

    @Test(arguments: [
        "", "{", "[]", #"{"keys":{}}"#,
        #"{"keys":[{"kty":"RSA","n":"AA","e":"AQAB"}]}"#, #"{"keys":[7,null,"x"]}"#,
    ]
    )
    func `An unusable document is a failure, after which known keys remain valid`(text: String) async throws {
        try provider.publish(Keys.jwk(first.publicKey, id: "1"))
        let verifier = try await verifier()
        #expect(await fetch(verifier, at: 0) == .changed)
        provider.answer(.document(Array(text.utf8), etag: nil, cacheControl: nil))
        #expect(await fetch(verifier, at: 600) == .failed)
        #expect(verifier.refusal(try token(first, "1")) == nil)
        let other = try await self.verifier()
        #expect(await fetch(other, at: 0) == .failed)
        provider.answer(.unchanged(cacheControl: nil))
        #expect(await fetch(other, at: 60) == .failed, "there is no earlier document")
    }

    @Test(arguments: [
        #"{"keys":[]}"#, #"{"keys":[{"kty":"EC","crv":"P-521","x":"AA","y":"AA"}]}"#,
        #"{"keys":[{"kty":"RSA","use":"enc","n":"AA","e":"AQAB"}]}"#,
        #"{"keys":[{"kty":"oct","alg":"HS256","k":"c2VjcmV0IHNlY3JldCBzZWNyZXQ"}]}"#,
        #"{"keys":[{"kty":"oct","k":"c2VjcmV0"},{"kty":"RSA","use":"enc","n":"AA","e":"AQAB"}]}"#,
        #"{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA","d":"AA"}]}"#,
    ]
    )
    func `A key set without keys withdraws the earlier keys, and is soon fetched again`(text: String) async throws {
        try provider.publish(Keys.jwk(first.publicKey, id: "1"))
        let verifier = try await verifier()
        #expect(await fetch(verifier, at: 0) == .changed)
        #expect(verifier.refusal(try token(first, "1")) == nil)
        provider.answer(.document(Array(text.utf8), etag: nil, cacheControl: "max-age=86400"))
        #expect(await fetch(verifier, at: 600) == .changed)
        #expect(verifier.refusal(try token(first, "1")) == .unknownKey)
        #expect(verifier.cachedTokens == 0)
        #expect(verifier.keyReport.empty == [Self.url] && verifier.keyReport.missing == [])
        try provider.publish(Keys.jwk(first.publicKey, id: "1"))
        #expect(await fetch(verifier, at: 661) == .changed)
        #expect(verifier.refusal(try token(first, "1")) == nil)
        #expect(verifier.keyReport.empty == [])
    }

    @Test
    func `Published secrets and private keys are never used; unusual keys do not affect others`()
        async throws
    {
        let secret = Keys.secret
        var leaked = Keys.jwk(second.publicKey, id: "2")
        leaked["d"] = base64URL(second.rawRepresentation)
        try provider.publish(
            ["kty": "oct", "kid": "s", "alg": "HS256", "k": base64URL(Data(secret))],
            leaked,
            ["kid": "no type"],
            ["kty": 7],
            ["kty": "EC", "crv": "P-521", "x": "AA", "y": "AA"],
            ["kty": "RSA", "n": "!", "e": "AQAB"],
            ["kty": "EC", "crv": "P-256"],
            Keys.jwk(first.publicKey, id: "enc", extra: ["use": "enc"]),
            Keys.jwk(first.publicKey, id: "384", extra: ["alg": "ES384"]),
            Keys.jwk(first.publicKey, id: "1")
        )
        let verifier = try await verifier()
        #expect(await fetch(verifier, at: 0) == .changed)
        #expect(verifier.refusal(try token(first, "1")) == nil)
        #expect(verifier.refusal(try token(second, "2")) == .unknownKey)
        #expect(verifier.refusal(try token(first, "enc")) == .unknownKey)
        for header in [["kid": "s"], [:]] {
            #expect(verifier.refusal(try TestKey.hs256(secret).token(claims(), header: header)) != nil)
        }
    }

    @Test
    func `Only an unknown key id causes a fetch`() async throws {
        try provider.publish(Keys.jwk(first.publicKey, id: "1"))
        let verifier = try await verifier { $0.own.secret = Keys.secret }
        #expect(await fetch(verifier, at: 0) == .changed)
        let moment = Timestamp(microseconds: now * 1_000_000)
        let useless = [
            try token(second, "1"), try TestKey.es256(second).token(claims()), "x.y.z",
            try TestKey.hs256([1]).token(claims(), header: ["kid": "9"]),
            try TestKey(algorithm: "none") { _ in Data() }.token(claims(), header: ["kid": "9"]),
            try TestKey.es256(first).token(claims(["exp": now]), header: ["kid": "1"]),
        ]
        for token in useless {
            await #expect(throws: TokenError.self) { try await verifier.verifyOrFetch(token[...], now: moment) }
        }
        #expect(await fetch(verifier, at: 1) == nil)
    }

    @Test
    func `Many unknown key ids cause one fetch, which accepts tokens of a new key`() async throws {
        try provider.publish(Keys.jwk(first.publicKey, id: "1"))
        let verifier = try await verifier()
        let clock: TimeSource = { Timestamp(microseconds: now * 1_000_000) }
        var logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        logger.logLevel = .critical
        let keeper = JWKSRefresher(verifier: verifier, fetch: provider.fetch, now: clock, logger: logger)
        let service = Task { try await keeper.run() }
        defer { service.cancel() }
        while verifier.keyReport.isWithoutKeys { await Task.yield() }
        try provider.publish(Keys.jwk(first.publicKey, id: "1"), Keys.jwk(second.publicKey, id: "2"))
        let good = try token(second, "2")
        _ = try await verifier.verifyOrFetch(good[...], now: clock())
        #expect(provider.calls == 2)

        let forged = try (0..<500).map { try token(first, "forged \($0)") }
        let refused = await withTaskGroup(of: Bool.self) { group in
            for token in forged {
                group.addTask { (try? await verifier.verifyOrFetch(token[...], now: clock())) == nil }
            }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(refused == 500)
        #expect(provider.calls == 2, "the next fetch may begin only after half a minute")
    }

    @Test
    func `Changed files are loaded; broken files change nothing, and are reported once`() async throws {
        let read = Mutex(
            Result<TokenConfiguration, TokenConfigurationError>.success(TokenConfiguration(secret: Keys.secret))
        )
        let verifier = try await TokenVerifier(configuration: TokenConfiguration(secret: Keys.secret))
        let clock = Mutex(now)
        var logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        logger.logLevel = .critical
        let keeper = JWKSRefresher(
            verifier: verifier,
            fetch: provider.fetch,
            load: { try read.withLock { try $0.get() } },
            now: { Timestamp(microseconds: clock.withLock { $0 } * 1_000_000) },
            logger: logger
        )
        let service = Task { try await keeper.run() }
        defer { service.cancel() }
        let old = try TestKey.hs256(Keys.secret).token(claims(["exp": now + 1_000]))
        let new = try TestKey.eddsa(Keys.ed).token(claims(["exp": now + 1_000]))
        #expect(verifier.refusal(old) == nil)

        read.withLock { $0 = .failure(TokenConfigurationError("broken")) }
        clock.withLock { $0 += 5 }
        verifier.findWork()
        while !keeper.isFileBroken { await Task.yield() }
        #expect(verifier.refusal(old) == nil)

        read.withLock { $0 = .success(TokenConfiguration(keys: [Keys.pem(Keys.ed.publicKey.pemRepresentation)])) }
        clock.withLock { $0 += 5 }
        verifier.findWork()
        while keeper.isFileBroken { await Task.yield() }
        #expect(verifier.refusal(old) == .algorithmNotAllowed)
        #expect(verifier.refusal(new) == nil)
    }
}
