import Crypto
import CryptoExtras
import Foundation
import SyncModel
import Synchronization
import Testing

@testable import Tokens

/// The gateway's own tokens, for upstreams.
@Suite struct RequestSignerTests {
    private static let pems: [(String, Result<String, any Error>)] = [
        ("RS256", Result { try Keys.rsa.get().pemRepresentation }), ("ES256", Result { Keys.ec.pemRepresentation }),
        ("EdDSA", Result { ed25519PEM(Keys.ed) }),
    ]

    /// PKCS #8 (RFC 8410), which swift-crypto does not write.
    private static func ed25519PEM(_ key: Curve25519.Signing.PrivateKey) -> String {
        let prefix: [UInt8] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20]
        let text = (Data(prefix) + key.rawRepresentation).base64EncodedString()
        return "-----BEGIN PRIVATE KEY-----\n\(text)\n-----END PRIVATE KEY-----"
    }

    private func signer(_ pem: String, now moment: @escaping TimeSource = { at(now) }) async throws -> RequestSigner {
        try await RequestSigner(pem: TokenKeySource(name: "signing.pem", text: pem), now: moment)
    }

    @Test(arguments: [0, 1, 2])
    func `the key set verifies the signer's tokens`(_ index: Int) async throws {
        let (algorithm, pem) = Self.pems[index]
        let signer = try await signer(pem.get())
        let token = try await signer.sign(organization: organization, user: user)
        let jwks = TokenKeySource(name: "jwks", text: String(decoding: signer.jwks, as: UTF8.self))
        let verifier = try await TokenVerifier(configuration: TokenConfiguration(keys: [jwks], issuer: "sluice"))
        let claims = try verifier.verify(token, now: now)
        #expect(
            claims == TokenClaims(organization, user, by: ByteExactString(RequestSigner.issuer), expiresAt: now + 300)
        )
        #expect(verifier.refusal(token, now: now + 300) == .expired)
        let header = try TokenText(Array(token.utf8)).header
        #expect(header.alg == algorithm)
        #expect(jwks.text.contains("\"kid\":\"\(header.kid ?? "none")\""))
        #expect(!jwks.text.contains("\"d\""))
    }

    @Test func `the key ID is the thumbprint`() async throws {
        // RFC 8037, appendix A.3
        let d = try #require(Data(base64Encoded: "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A="))
        let key = try Curve25519.Signing.PrivateKey(rawRepresentation: d)
        let signer = try await signer(Self.ed25519PEM(key))
        let jwks = String(decoding: signer.jwks, as: UTF8.self)
        #expect(jwks.contains("\"kid\":\"kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k\""))
    }

    @Test func `reuses a token until a minute before its end`() async throws {
        let clock = Mutex(now)
        let signer = try await signer(Keys.ec.pemRepresentation) { at(clock.withLock { $0 }) }
        let first = try await signer.sign(organization: organization, user: user)
        clock.withLock { $0 += 239 }
        #expect(try await signer.sign(organization: organization, user: user) == first)
        #expect(try await signer.sign(organization: organization, user: UUID()) != first)
        #expect(try await signer.sign(organization: UUID(), user: user) != first)
        clock.withLock { $0 += 1 }
        #expect(try await signer.sign(organization: organization, user: user) != first)
    }

    @Test func `claim names are settings`() async throws {
        let signer = try await RequestSigner(
            pem: TokenKeySource(name: "key", text: Keys.ec.pemRepresentation),
            userClaim: "uid",
            organizationClaim: "te\"nant",
            now: { at(now) }
        )
        let token = try await signer.sign(organization: organization, user: user)
        let payload = try TokenPayload(TokenText(Array(token.utf8)).payload)
        #expect(try payload.user(ClaimPlace(named: "uid"), .uuid) == .id(user))
        let tenant = try payload.organization(.claim(ClaimPlace(named: "te\"nant")), .uuid)
        #expect(tenant == .id(organization))
        #expect(try payload.text("jti")?.isEmpty == false)
        #expect(try payload.seconds("iat") == now)
    }

    @Test(arguments: [
        ("", "contains no private key"), ("nonsense", "contains no private key"),
        (Keys.ec.publicKey.pemRepresentation, "contains no private key"),
        (Keys.ec.pemRepresentation + "\n" + Keys.ec.pemRepresentation, "contains 2 private keys"),
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", "not a usable key"),
        ("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----", "encrypted"),
        (P384.Signing.PrivateKey().pemRepresentation, "not a usable key"),
        ("-----BEGIN PRIVATE KEY-----\nAAAA", "without its END"),
    ])
    func `refuses other files`(_ text: String, _ reason: String) async throws {
        let error = await #expect(throws: TokenConfigurationError.self) { try await signer(text) }
        #expect(error?.description.contains(reason) == true)
        #expect(error?.description.contains("signing.pem") == true)
    }
}

private func at(_ seconds: Int64) -> Timestamp { Timestamp(microseconds: seconds * 1_000_000) }
