import Crypto
import Foundation

extension UUID {
    /// A UUID made of a hash, so that equal hashes give equal UUIDs.
    ///
    /// Its first 16 bytes, marked as version 8 (RFC 9562, 5.8).
    init(hash: SHA256.Digest) {
        var uuid = hash.withUnsafeBytes { $0.loadUnaligned(as: uuid_t.self) }
        uuid.6 = 0x80 | uuid.6 & 0x0f
        uuid.8 = 0x80 | uuid.8 & 0x3f
        self.init(uuid: uuid)
    }
}
