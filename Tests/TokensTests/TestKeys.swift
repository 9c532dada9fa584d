import Crypto
import CryptoExtras
import Foundation
import SyncModel

@testable import Tokens

/// Signs tokens as an external issuer would: with swift-crypto, not with the code under test.
struct TestKey: Sendable {
    let algorithm: String
    let sign: @Sendable (Data) throws -> Data

    static func hs256(_ secret: [UInt8]) -> TestKey {
        TestKey(algorithm: "HS256") {
            Data(HMAC<SHA256>.authenticationCode(for: $0, using: SymmetricKey(data: secret)))
        }
    }

    static func rs256(_ key: _RSA.Signing.PrivateKey) -> TestKey {
        TestKey(algorithm: "RS256") {
            try key.signature(for: SHA256.hash(data: $0), padding: .insecurePKCS1v1_5).rawRepresentation
        }
    }

    static func es256(_ key: P256.Signing.PrivateKey) -> TestKey {
        TestKey(algorithm: "ES256") { try key.signature(for: $0).rawRepresentation }
    }

    static func eddsa(_ key: Curve25519.Signing.PrivateKey) -> TestKey {
        TestKey(algorithm: "EdDSA") { try key.signature(for: $0) }
    }

    /// A token with these claims. The members of `header` are added to `alg`, or replace it.
    func token(_ claims: [String: Any], header: [String: Any] = [:]) throws -> String {
        let header = ["alg": algorithm as Any, "typ": "JWT"].merging(header) { $1 }
        let signed = base64URL(try json(header)) + "." + base64URL(try json(claims))
        return signed + "." + base64URL(try sign(Data(signed.utf8)))
    }
}

func json(_ object: [String: Any]) throws -> Data {
    try JSONSerialization.data(withJSONObject: object, options: [.sortedKeys])
}

func base64URL(_ data: Data) -> String {
    data.base64EncodedString()
        .replacingOccurrences(of: "+", with: "-")
        .replacingOccurrences(of: "/", with: "_")
        .replacingOccurrences(of: "=", with: "")
}

/// Keys that are generated once for all tests; RSA ones take a while.
enum Keys {
    static let secret = Array("a secret of thirty-two bytes, ok".utf8)
    static let rsa = Result { try _RSA.Signing.PrivateKey(keySize: .bits2048) }
    static let otherRSA = Result { try _RSA.Signing.PrivateKey(keySize: .bits2048) }
    static let ec = P256.Signing.PrivateKey()
    static let ed = Curve25519.Signing.PrivateKey()

    /// A JWKS member for an EC key.
    static func jwk(_ key: P256.Signing.PublicKey, id: String?, extra: [String: Any] = [:]) -> [String: Any] {
        let raw = key.rawRepresentation
        var member: [String: Any] = [
            "kty": "EC", "crv": "P-256", "x": base64URL(raw.prefix(32)), "y": base64URL(raw.suffix(32)),
        ]
        member["kid"] = id
        return member.merging(extra) { $1 }
    }

    static func jwk(_ key: _RSA.Signing.PublicKey, id: String?) throws -> [String: Any] {
        let primitives = try key.getKeyPrimitives()
        var member: [String: Any] = [
            "kty": "RSA", "use": "sig", "alg": "RS256", "n": base64URL(primitives.modulus),
            "e": base64URL(primitives.publicExponent),
        ]
        member["kid"] = id
        return member
    }

    static func jwk(_ key: Curve25519.Signing.PublicKey, id: String?) -> [String: Any] {
        var member: [String: Any] = ["kty": "OKP", "crv": "Ed25519", "x": base64URL(key.rawRepresentation)]
        member["kid"] = id
        return member
    }

    static func jwks(_ members: [String: Any]...) throws -> TokenKeySource {
        TokenKeySource(name: "test.jwks", text: String(decoding: try json(["keys": members]), as: UTF8.self))
    }

    static func pem(_ blocks: String...) -> TokenKeySource {
        TokenKeySource(name: "test.pem", text: blocks.joined(separator: "\n") + "\n")
    }
}

/// The time of the tests, in seconds since 1970.
let now: Int64 = 1_800_000_000

let organization = UUID()
let user = UUID()

/// Valid claims, some of which `changes` replaces; null removes a claim.
func claims(_ changes: [String: Any] = [:]) -> [String: Any] {
    var claims: [String: Any] = [
        "sub": user.uuidString, "org": organization.uuidString.lowercased(), "exp": now + 60,
    ]
    for (name, value) in changes { claims[name] = value is NSNull ? nil : value }
    return claims
}

extension TokenClaims {
    /// The claims of a token with UUIDs.
    init(_ organization: UUID, _ user: UUID, by issuer: ByteExactString = "", expiresAt: Int64) {
        self.init(
            issuer: issuer == "" ? nil : issuer,
            namespace: issuer,
            organization: .id(organization),
            user: .id(user),
            covered: .any,
            expiresAt: expiresAt
        )
    }
}

extension TokenVerifier {
    /// The error with which a token is refused; nil if it is accepted.
    func refusal(_ token: String, now moment: Int64 = now) -> TokenError? {
        do throws(TokenError) {
            _ = try verify(token, now: moment)
            return nil
        } catch {
            return error
        }
    }
}

extension TokenVerifier {
    /// - Parameter now: seconds since 1970.
    func cached(_ token: String, now: Int64) -> TokenClaims? {
        token.utf8.count > Self.maximumTokenBytes ? nil : cached(Self.digest(of: token[...]), now: now)
    }

    /// - Parameter now: seconds since 1970.
    func verify(_ token: String, now: Int64) throws(TokenError) -> TokenClaims {
        try verify(token[...], now: Timestamp(microseconds: now * 1_000_000))
    }
}
