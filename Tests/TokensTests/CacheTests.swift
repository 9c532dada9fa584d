import Crypto
import CryptoExtras
import Foundation
import SyncModel
import Testing

@testable import Tokens

@Suite("Cached tokens")
struct CacheTests {
    let key = TestKey.hs256(Keys.secret)

    private func verifier(capacity: Int = 100) async throws -> TokenVerifier {
        try await TokenVerifier(configuration: TokenConfiguration(secret: Keys.secret, cacheCapacity: capacity))
    }

    @Test
    func `A verified token is cached until exp`() async throws {
        let verifier = try await verifier()
        let token = try key.token(claims())
        #expect(verifier.cached(token, now: now) == nil)
        let verified = try verifier.verify(token, now: now)
        #expect(verifier.cached(token, now: now + 59) == verified)
        #expect(verifier.cachedTokens == 1)
        #expect(verifier.cached(token, now: now + 60) == nil)
        #expect(verifier.cachedTokens == 0)
        #expect(verifier.refusal(token, now: now + 60) == .expired)
    }

    @Test
    func `Refused tokens are not cached`() async throws {
        let verifier = try await verifier()
        _ = verifier.refusal(try key.token(claims(["exp": now])))
        _ = verifier.refusal("x.y.z")
        #expect(verifier.cachedTokens == 0)
    }

    @Test
    func `The cache never exceeds its capacity, and keeps recently used tokens`() async throws {
        let verifier = try await verifier(capacity: 10)
        let favourite = try key.token(claims(["n": "favourite"]))
        _ = try verifier.verify(favourite, now: now)
        for index in 0..<100 {
            _ = try verifier.verify(try key.token(claims(["n": index])), now: now)
            #expect(verifier.cached(favourite, now: now) != nil)
            #expect(verifier.cachedTokens <= 10)
        }
        #expect(verifier.cached(try key.token(claims(["n": 0])), now: now) == nil)
        #expect(verifier.cached(try key.token(claims(["n": 99])), now: now) != nil)
    }

    @Test
    func `With no capacity nothing is cached, and verification works`() async throws {
        let verifier = try await verifier(capacity: 0)
        let token = try key.token(claims())
        #expect(verifier.refusal(token) == nil)
        #expect(verifier.cachedTokens == 0)
    }

    @Test
    func `New keys take effect, and empty the cache`() async throws {
        let first = P256.Signing.PrivateKey()
        let second = P256.Signing.PrivateKey()
        let verifier = try await TokenVerifier(
            configuration: TokenConfiguration(keys: [try Keys.jwks(Keys.jwk(first.publicKey, id: "1"))])
        )
        let old = try TestKey.es256(first).token(claims(), header: ["kid": "1"])
        let new = try TestKey.es256(second).token(claims(), header: ["kid": "2"])
        #expect(verifier.refusal(old) == nil)
        #expect(verifier.refusal(new) == .unknownKey)

        try await verifier.replace(
            TokenConfiguration(keys: [try Keys.jwks(Keys.jwk(second.publicKey, id: "2"))])
        )
        #expect(verifier.cachedTokens == 0)
        #expect(verifier.refusal(old) == .unknownKey)
        #expect(verifier.refusal(new) == nil)

        await #expect(throws: TokenConfigurationError.self) {
            try await verifier.replace(TokenConfiguration(keys: [Keys.pem("")]))
        }
        #expect(verifier.refusal(new) == nil)
    }

    @Test
    func `Substrings and strings are the same token`() async throws {
        let verifier = try await verifier()
        let header = "Bearer " + (try key.token(claims()))
        let moment = Timestamp(microseconds: now * 1_000_000)
        let verified = try verifier.verify(header.dropFirst(7), now: moment)
        #expect(verifier.cached(String(header.dropFirst(7)), now: now) == verified)
    }

    @Test
    func `Many tasks may verify concurrently`() async throws {
        let verifier = try await verifier(capacity: 20)
        let tokens = try (0..<40).map { try key.token(claims(["n": $0])) }
        await withTaskGroup(of: Bool.self) { group in
            for offset in 0..<4 {
                group.addTask {
                    (0..<200).allSatisfy { verifier.refusal(tokens[($0 * 7 + offset) % tokens.count]) == nil }
                }
            }
            for await allAccepted in group { #expect(allAccepted) }
        }
        #expect(verifier.cachedTokens <= 20)
    }
}
