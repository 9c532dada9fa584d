import Crypto

/// The SHA-256 of a token's text: the key of cached tokens.
///
/// So a memory dump contains no token.
struct TokenDigest: Hashable, Sendable {
    private let words: (UInt64, UInt64, UInt64, UInt64)

    init(_ text: UnsafeRawBufferPointer) {
        var hash = SHA256()
        hash.update(bufferPointer: text)
        self.words = hash.finalize().withUnsafeBytes { $0.loadUnaligned(as: (UInt64, UInt64, UInt64, UInt64).self) }
    }

    static func == (left: Self, right: Self) -> Bool {
        left.words == right.words
    }

    /// One word is enough: it is uniform already, and only verified tokens get in.
    func hash(into hasher: inout Hasher) {
        hasher.combine(words.0)
    }
}
