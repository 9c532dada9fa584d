import Crypto
import CryptoExtras
import Foundation
import Testing

@testable import Tokens

@Suite("Algorithms and keys")
struct AlgorithmTests {
    private func verifier(secret: [UInt8]? = nil, _ sources: TokenKeySource...) async throws -> TokenVerifier {
        try await TokenVerifier(configuration: TokenConfiguration(secret: secret, keys: sources))
    }

    private func pemOfAll() throws -> TokenKeySource {
        Keys.pem(
            "Our keys:",
            try Keys.rsa.get().publicKey.pemRepresentation,
            Keys.ec.publicKey.pemRepresentation,
            Keys.ed.publicKey.pemRepresentation
        )
    }

    @Test
    func `HS256, RS256, ES256 and EdDSA tokens are accepted, from one PEM file and a secret`() async throws {
        let verifier = try await verifier(secret: Keys.secret, pemOfAll())
        let keys: [TestKey] = [
            .hs256(Keys.secret), .rs256(try Keys.rsa.get()), .es256(Keys.ec), .eddsa(Keys.ed),
        ]
        for key in keys {
            let accepted = try verifier.verify(key.token(claims()), now: now)
            #expect(accepted == TokenClaims(organization, user, expiresAt: now + 60))
            #expect(verifier.refusal(try key.token(claims(), header: ["kid": "whatever"])) == nil)
        }
    }

    @Test
    func `Two keys of the same type in one file are both used`() async throws {
        let second = P256.Signing.PrivateKey()
        let verifier = try await verifier(
            Keys.pem(Keys.ec.publicKey.pemRepresentation, second.publicKey.pemRepresentation)
        )
        #expect(verifier.refusal(try TestKey.es256(Keys.ec).token(claims())) == nil)
        #expect(verifier.refusal(try TestKey.es256(second).token(claims())) == nil)
        #expect(verifier.refusal(try TestKey.es256(P256.Signing.PrivateKey()).token(claims())) == .badSignature)
    }

    @Test
    func `JWKS keys are chosen by kid, and all are tried without one`() async throws {
        let rsa = try Keys.rsa.get()
        let verifier = try await verifier(
            Keys.jwks(
                Keys.jwk(rsa.publicKey, id: "r"),
                Keys.jwk(Keys.ec.publicKey, id: "e"),
                Keys.jwk(Keys.ed.publicKey, id: "d"),
                ["kty": "EC", "crv": "P-521", "x": "AA", "y": "AA"],
                ["kty": "new", "kid": "n"],
                Keys.jwk(Keys.ec.publicKey, id: "enc", extra: ["use": "enc"])
            )
        )
        for (key, id) in [(TestKey.rs256(rsa), "r"), (.es256(Keys.ec), "e"), (.eddsa(Keys.ed), "d")] {
            #expect(verifier.refusal(try key.token(claims(), header: ["kid": id])) == nil)
            #expect(verifier.refusal(try key.token(claims())) == nil)
            #expect(verifier.refusal(try key.token(claims(), header: ["kid": "x"])) == .unknownKey)
        }
        let otherType = try TestKey.rs256(rsa).token(claims(), header: ["kid": "e"])
        #expect(verifier.refusal(otherType) == .algorithmNotAllowed)
        let otherKey = try TestKey.rs256(try Keys.otherRSA.get()).token(claims(), header: ["kid": "r"])
        #expect(verifier.refusal(otherKey) == .badSignature)
    }

    @Test
    func `alg none is refused, with and without a signature, in any spelling`() async throws {
        let verifier = try await verifier(secret: Keys.secret, pemOfAll())
        let unsigned = TestKey(algorithm: "none") { _ in Data() }
        for name in ["none", "None", "NONE", "", "hs256", "HS384", "HS512", "RS512", "PS256", "ES384"] {
            #expect(verifier.refusal(try unsigned.token(claims(), header: ["alg": name])) == .algorithmNotAllowed)
            let signed = try TestKey.hs256(Keys.secret).token(claims(), header: ["alg": name])
            #expect(verifier.refusal(signed) == .algorithmNotAllowed)
        }
        #expect(
            verifier.refusal(try unsigned.token(claims(), header: ["alg": NSNull()]))
                == .malformedHeader("alg", mustBe: "a text")
        )
        #expect(verifier.refusal(try unsigned.token(claims(), header: ["alg": "HS256"])) == .badSignature)
    }

    @Test
    func `The bytes of a public key are not accepted as an HMAC secret`() async throws {
        let rsa = try Keys.rsa.get()
        let withoutSecret = try await verifier(pemOfAll())
        let withSecret = try await verifier(secret: Keys.secret, pemOfAll())
        let publicBytes: [[UInt8]] = [
            Array(rsa.publicKey.pemRepresentation.utf8), Array(rsa.publicKey.derRepresentation),
            Array(Keys.ed.publicKey.rawRepresentation), Array(Keys.ec.publicKey.x963Representation),
        ]
        for bytes in publicBytes {
            let forged = try TestKey.hs256(bytes).token(claims())
            #expect(withoutSecret.refusal(forged) == .algorithmNotAllowed)
            #expect(withSecret.refusal(forged) == .badSignature)
        }
    }

    @Test
    func `A token for one type of key is refused by a key of another type`() async throws {
        let verifier = try await verifier(Keys.pem(Keys.ec.publicKey.pemRepresentation))
        #expect(verifier.refusal(try TestKey.rs256(try Keys.rsa.get()).token(claims())) == .algorithmNotAllowed)
        #expect(verifier.refusal(try TestKey.eddsa(Keys.ed).token(claims())) == .algorithmNotAllowed)
        let renamed = try TestKey.rs256(try Keys.rsa.get()).token(claims(), header: ["alg": "ES256"])
        #expect(verifier.refusal(renamed) == .badSignature)
        let der = TestKey(algorithm: "ES256") { try Keys.ec.signature(for: $0).derRepresentation }
        #expect(verifier.refusal(try der.token(claims())) == .badSignature)
    }

    @Test
    func `Keys in a token's header are ignored`() async throws {
        let verifier = try await verifier(Keys.pem(Keys.ec.publicKey.pemRepresentation))
        let mine = P256.Signing.PrivateKey()
        let header: [String: Any] = ["jwk": Keys.jwk(mine.publicKey, id: nil), "jku": "https://evil.example/"]
        #expect(verifier.refusal(try TestKey.es256(mine).token(claims(), header: header)) == .badSignature)
    }

    @Test
    func `Secrets are accepted from 16 bytes on`() async throws {
        for length in [16, 31, 32, 64, 65, 200] {
            let secret = [UInt8](repeating: 7, count: length)
            #expect(try await verifier(secret: secret).refusal(try TestKey.hs256(secret).token(claims())) == nil)
        }
        await #expect(throws: TokenConfigurationError.self) {
            try await verifier(secret: [UInt8](repeating: 7, count: 15))
        }
    }

    @Test
    func `Unusable key files are refused with a reason`() async throws {
        let small = try _RSA.Signing.PrivateKey(unsafeKeySize: .init(bitCount: 1_024))
        let p384 = P384.Signing.PrivateKey()
        var privateMember = Keys.jwk(Keys.ec.publicKey, id: nil)
        privateMember["d"] = base64URL(Keys.ec.rawRepresentation)
        let broken: [(TokenKeySource, String)] = [
            (Keys.pem(small.publicKey.pemRepresentation), "2048"),
            (Keys.pem(p384.publicKey.pemRepresentation), "P-256"),
            (Keys.pem(Keys.ec.pemRepresentation), "PRIVATE KEY"),
            (Keys.pem(""), "no public key"),
            (Keys.pem("-----BEGIN PUBLIC KEY-----\nAAAA"), "without its END"),
            (Keys.pem("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"), "not a usable key"),
            (try Keys.jwks(), "no key"),
            (try Keys.jwks(privateMember), "private"),
            (try Keys.jwks(["kty": "RSA", "n": "", "e": ""]), "not a usable key"),
            (try Keys.jwks(["kty": "RSA", "n": "!", "e": "AQAB"]), "not a usable key"),
            (try Keys.jwks(["kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"]), "not a usable key"),
            (try Keys.jwks(["kty": "OKP", "crv": "Ed25519", "x": "AA"]), "not a usable key"),
            (try Keys.jwks(try Keys.jwk(small.publicKey, id: nil)), "2048"),
            (TokenKeySource(name: "f", text: "{"), "f is not JSON: The text ends too early, at line 1, column 2."),
            (TokenKeySource(name: "f", text: "{}"), "not a JWKS"),
        ]
        for (source, reason) in broken {
            let error = await #expect(throws: TokenConfigurationError.self) { try await verifier(source) }
            #expect(error?.description.contains(reason) == true, "\(String(describing: error))")
        }
        await #expect(throws: TokenConfigurationError.self) { try await verifier() }
    }
}
