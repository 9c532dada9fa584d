import Crypto
import FoundationEssentials
import JWTKit

/// A private key that signs tokens, and its public half.
struct SigningKey: Sendable {
    let algorithm: TokenAlgorithm
    /// The thumbprint of the public half (RFC 7638).
    ///
    /// The same key always has the same thumbprint.
    let id: String
    /// The public half as a member of a JWKS document.
    ///
    /// The names and values need no escaping.
    let publicMembers: [(name: String, value: String)]
    /// JWTKit's implementation, which contains the key; see ``TokenKey/implementation``.
    let implementation: any JWTAlgorithm

    /// Reads the only private key of a PEM file, in PKCS #8 or an older form.
    ///
    /// Other blocks, such as openssl's `EC PARAMETERS`, are skipped.
    ///
    /// - Throws: `TokenConfigurationError` for any other text.
    init(pem source: TokenKeySource) async throws {
        let blocks = try source.pemBlocks().filter { $0.label.hasSuffix("PRIVATE KEY") }
        guard let block = blocks.first else { throw TokenConfigurationError("\(source.name) contains no private key.") }
        guard blocks.count == 1 else {
            throw TokenConfigurationError("\(source.name) contains \(blocks.count) private keys; it must contain one.")
        }
        guard block.label != "ENCRYPTED PRIVATE KEY", !block.text.contains("ENCRYPTED") else {
            throw TokenConfigurationError("\(source.name) is encrypted; use a key without a passphrase.")
        }
        if let key = try? EdDSA.PrivateKey(pem: block.text) {
            self = try await .ed25519(key)
        } else if let key = try? P256.Signing.PrivateKey(pemRepresentation: block.text) {
            self = try await .p256(key)
        } else if let key = try? JWTKit.Insecure.RSA.PrivateKey(pem: block.text) {
            self = try await .rsa(key)
        } else {
            throw TokenConfigurationError(
                "\(source.name) is not a usable key. Use RSA with at least 2048 bits, EC P-256 or Ed25519."
            )
        }
    }

    private init(
        _ algorithm: TokenAlgorithm,
        required members: [(name: String, value: String)],
        _ keys: JWTKeyCollection
    ) async throws {
        self.algorithm = algorithm
        // the thumbprint covers exactly the members that the type requires, in alphabetical order
        let digest = SHA256.hash(data: Data(Self.json(members).utf8))
        id = Base64URL.encode(digest)
        publicMembers = members + [("alg", algorithm.rawValue), ("kid", id), ("use", "sig")]
        implementation = try await keys.getKey()
    }

    private static func ed25519(_ key: EdDSA.PrivateKey) async throws -> SigningKey {
        let x = Base64URL.encode(key.publicKey.rawRepresentation)
        let members = [("crv", "Ed25519"), ("kty", "OKP"), ("x", x)]
        return try await SigningKey(.eddsa, required: members, JWTKeyCollection().add(eddsa: key))
    }

    private static func p256(_ key: P256.Signing.PrivateKey) async throws -> SigningKey {
        let point = key.publicKey.rawRepresentation
        let (x, y) = (Base64URL.encode(point.prefix(32)), Base64URL.encode(point.suffix(32)))
        let members = [("crv", "P-256"), ("kty", "EC"), ("x", x), ("y", y)]
        let keys = await JWTKeyCollection().add(ecdsa: try ES256PrivateKey(backing: key))
        return try await SigningKey(.es256, required: members, keys)
    }

    private static func rsa(_ key: JWTKit.Insecure.RSA.PrivateKey) async throws -> SigningKey {
        let primitives = try key.publicKey.getKeyPrimitives()
        let e = Base64URL.encode(primitives.publicExponent)
        let members = [("e", e), ("kty", "RSA"), ("n", Base64URL.encode(primitives.modulus))]
        let keys = await JWTKeyCollection().add(rsa: key, digestAlgorithm: .sha256)
        return try await SigningKey(.rs256, required: members, keys)
    }

    /// The public half as a JWKS document (RFC 7517).
    var jwks: [UInt8] { Array("{\"keys\":[\(Self.json(publicMembers))]}".utf8) }

    private static func json(_ members: [(name: String, value: String)]) -> String {
        "{" + members.map { "\"\($0.name)\":\"\($0.value)\"" }.joined(separator: ",") + "}"
    }
}

/// The accepted signature algorithms.
///
/// The type of a key determines its algorithm. The token's header cannot change the algorithm, which prevents algorithm
/// confusion attacks.
enum TokenAlgorithm: String, Sendable {
    case hs256 = "HS256"
    case rs256 = "RS256"
    case es256 = "ES256"
    case eddsa = "EdDSA"

    /// Whether the key that verifies tokens differs from the key that signs them. Only keys of such algorithms are
    /// published.
    var isAsymmetric: Bool { self != .hs256 }
}
