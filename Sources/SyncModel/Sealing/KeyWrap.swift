import Crypto
import Foundation

/// Wraps a data key by a master key: AES-256-GCM with a random nonce.
///
/// The key's owner is authenticated.
enum KeyWrap {
    /// Nonce, ciphertext and tag: 60 bytes.
    ///
    /// - Throws: ``SealError`` where the master key cannot be used, which does not happen with one of 32 bytes.
    static func wrap(
        _ key: SymmetricKey,
        by master: MasterKey,
        authenticating place: [UInt8]
    ) throws(SealError) -> [UInt8] {
        do {
            let plain = key.withUnsafeBytes { Data($0) }
            let box = try AES.GCM.seal(plain, using: master.key, authenticating: place)
            guard let bytes = box.combined else { throw SealError.damaged("data key") }
            return Array(bytes)
        } catch {
            throw .locked("master key \(master.label) cannot wrap a data key")
        }
    }

    /// Nil where the key was changed, or is another's.
    static func unwrap(_ bytes: [UInt8], by master: MasterKey, authenticating place: [UInt8]) -> SymmetricKey? {
        guard let box = try? AES.GCM.SealedBox(combined: bytes),
            let plain = try? AES.GCM.open(box, using: master.key, authenticating: place)
        else { return nil }
        return SymmetricKey(data: plain)
    }
}
