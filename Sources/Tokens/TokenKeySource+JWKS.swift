import FoundationEssentials
import JWTKit

/// A member of a JWKS document (RFC 7517), as far as it matters here.
private struct JWKMember: Decodable {
    var kty: String
    var kid: String?
    var use: String?
    var alg: String?
    var crv: String?
    var n: String?
    var e: String?
    var x: String?
    var y: String?
    var d: String?
}

private struct JWKDocument: Decodable {
    var keys: [JWKMember]
}

extension TokenKeySource {
    /// The signature keys of a JWKS document. Keys of other types, curves, algorithms and uses are passed over, as
    /// RFC 7517 wants it, but one that is usable must remain.
    func jwksKeys() async throws -> [TokenKey] {
        let decoder = DefaultJWTParser().jsonDecoder
        guard let document = try? decoder.decode(JWKDocument.self, from: Data(text.utf8)) else {
            throw TokenConfigurationError("\(name) is not a JWKS document.")
        }
        var keys: [TokenKey] = []
        for (index, member) in document.keys.enumerated() {
            let position = "key \(index + 1) of \(name)"
            guard member.kty == "oct" || member.d == nil else {
                throw TokenConfigurationError("\(position) is a private key. Give its public half only.")
            }
            guard member.use == nil || member.use == "sig" else { continue }
            do {
                if let key = try await Self.key(member) { keys.append(key) }
            } catch {
                throw TokenConfigurationError(
                    "\(position) is not a usable key: RSA of at least 2048 bits, EC on P-256 or Ed25519 is."
                )
            }
        }
        guard !keys.isEmpty else {
            throw TokenConfigurationError("\(name) holds no key for RS256, ES256 or EdDSA.")
        }
        return keys
    }

    /// Nil for a key that is fine and not for us. `oct` keys are secrets and have no place in a published document.
    private static func key(_ member: JWKMember) async throws -> TokenKey? {
        switch (member.kty, member.crv, member.alg ?? "") {
        case ("RSA", _, ""), ("RSA", _, "RS256"):
            let key = try Insecure.RSA.PublicKey(modulus: member.n ?? "", exponent: member.e ?? "")
            return try await .rsa(key, id: member.kid)
        case ("EC", "P-256", ""), ("EC", "P-256", "ES256"):
            let key = try ES256PublicKey(parameters: (member.x ?? "", member.y ?? ""))
            return try await .ecdsa(key, id: member.kid)
        case ("OKP", "Ed25519", ""), ("OKP", "Ed25519", "EdDSA"), ("OKP", "Ed25519", "Ed25519"):
            return try await .eddsa(EdDSA.PublicKey(x: member.x ?? "", curve: .ed25519), id: member.kid)
        default:
            return nil
        }
    }
}
