import JWTKit
import SyncModel

/// A key that may verify tokens, with its one algorithm.
struct TokenKey: Sendable {
    let algorithm: TokenAlgorithm
    /// The key's id, if its source gives it one.
    let id: ByteExactString?

    /// JWTKit's implementation, with the key in it. Held directly because a verification then is a plain function
    /// call; JWTKit's own key collection is an actor, falls back to a default key for an unknown id, and does not
    /// compare a token's algorithm with the key's.
    let implementation: any JWTAlgorithm

    static func secret(_ bytes: [UInt8]) async throws -> TokenKey {
        // HMAC pads a key with zeros to its block size, so these zeros change no signature; without them JWTKit's
        // debug builds stop at a key that is shorter than the hash.
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
