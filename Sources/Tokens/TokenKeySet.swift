import JWTKit
import SyncModel

/// All keys of an issuer that are in force.
struct TokenKeySet: Sendable {
    /// The maximum number of keys of a set.
    ///
    /// A token without `kid` is verified with every key of its algorithm, so the number must be small.
    static let maximumKeys = 64

    let keys: [TokenKey]

    init(_ keys: [TokenKey]) {
        self.keys = keys
    }

    /// The configured keys: a secret, and the keys of sources.
    ///
    /// - Throws: `TokenConfigurationError` for an unusable secret or source.
    static func keys(secret: [UInt8]?, sources: [TokenKeySource]) async throws -> [TokenKey] {
        var keys: [TokenKey] = []
        if let secret {
            guard secret.count >= 16 else {
                throw TokenConfigurationError(
                    "The JWT secret has \(secret.count) bytes; it needs at least 16, and should have 32 or more."
                )
            }
            keys.append(try await .secret(secret))
        }
        for source in sources {
            keys += try await source.keys()
        }
        guard keys.count <= maximumKeys else {
            throw TokenConfigurationError("\(keys.count) JWT keys are configured; at most \(maximumKeys) may be.")
        }
        return keys
    }

    /// The keys that may have signed a token with this header.
    ///
    /// A key with an id is a candidate only for tokens with this id or without an id. Secrets and keys in PEM have no
    /// id. Such a key is a candidate for all tokens of its algorithm, except for tokens with the id of another key.
    func candidates(algorithm: String, id: String?) throws(TokenError) -> [TokenKey] {
        guard let algorithm = TokenAlgorithm(rawValue: algorithm) else { throw .algorithmNotAllowed }
        let id = id.map { ByteExactString($0) }
        let named = id.map { id in keys.filter { $0.id == id } } ?? []
        let eligible = named.isEmpty ? keys.filter { id == nil || $0.id == nil } : named
        guard !eligible.isEmpty else { throw .unknownKey }
        let candidates = eligible.filter { $0.algorithm == algorithm }
        guard candidates.isEmpty else { return candidates }
        // If only keys with other ids have the algorithm, the token's key may be newer than this key set.
        throw named.isEmpty && keys.contains { $0.algorithm == algorithm } ? .unknownKey : .algorithmNotAllowed
    }

    /// Whether a key has this id.
    func contains(_ id: String) -> Bool { keys.contains { $0.id == ByteExactString(id) } }
}

/// A key that may verify tokens, with its algorithm.
struct TokenKey: Sendable {
    let algorithm: TokenAlgorithm
    /// The key's id; nil if the source of the key contains no id.
    let id: ByteExactString?

    /// JWTKit's implementation, which contains the key.
    ///
    /// The implementation is stored directly, so that verification is a plain function call. JWTKit's own key
    /// collection is not used: it is an actor, uses a default key for an unknown id, and does not compare a token's
    /// algorithm with the key's algorithm.
    let implementation: any JWTAlgorithm

    static func secret(_ bytes: [UInt8]) async throws -> TokenKey {
        // HMAC pads a key with zeros to its block size, so these zeros do not change signatures. Without the zeros,
        // debug builds of JWTKit stop at a key that is shorter than the hash.
        let padded = bytes + Array(repeating: 0, count: max(0, 32 - bytes.count))
        let keys = await JWTKeyCollection().add(hmac: HMACKey(from: padded), digestAlgorithm: .sha256)
        return TokenKey(algorithm: .hs256, id: nil, implementation: try await keys.getKey())
    }

    static func rsa(_ key: Insecure.RSA.PublicKey, id: String?) async throws -> TokenKey {
        let keys = await JWTKeyCollection().add(rsa: key, digestAlgorithm: .sha256)
        return TokenKey(algorithm: .rs256, id: id.map { ByteExactString($0) }, implementation: try await keys.getKey())
    }

    static func ecdsa(_ key: ES256PublicKey, id: String?) async throws -> TokenKey {
        let keys = await JWTKeyCollection().add(ecdsa: key)
        return TokenKey(algorithm: .es256, id: id.map { ByteExactString($0) }, implementation: try await keys.getKey())
    }

    static func eddsa(_ key: EdDSA.PublicKey, id: String?) async throws -> TokenKey {
        let keys = await JWTKeyCollection().add(eddsa: key)
        return TokenKey(algorithm: .eddsa, id: id.map { ByteExactString($0) }, implementation: try await keys.getKey())
    }

    /// Whether the key made this signature. Bytes that cannot be a signature do not match.
    func verifies(_ signature: [UInt8], of signed: ArraySlice<UInt8>) -> Bool {
        (try? implementation.verify(signature, signs: signed)) ?? false
    }
}
