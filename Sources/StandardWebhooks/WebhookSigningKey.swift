import Crypto
import FoundationEssentials

/// A sender's private key, for signatures of the scheme `v1a`: Ed25519 (RFC 8032).
///
/// The key's text is `whsk_` followed by base64. The encoded bytes are the 32 bytes of the private key, optionally
/// followed by the 32 bytes of the public key. The description does not contain the text, so that the text is never
/// logged.
public struct WebhookSigningKey: Sendable, CustomStringConvertible {
    /// The beginning of a private key's text.
    public static let prefix = "whsk_"

    private let key: Curve25519.Signing.PrivateKey

    /// Creates a random key.
    public init() {
        key = Curve25519.Signing.PrivateKey()
    }

    /// Reads a key with or without its prefix.
    ///
    /// - Returns: nil if the text after the prefix is not base64 of a key, or if the public key in it does not match
    ///   the private key.
    public init?(_ text: String) {
        let encoded = text.hasPrefix(Self.prefix) ? text.dropFirst(Self.prefix.count) : text[...]
        guard let bytes = Base64Text.decode(encoded), bytes.count == 32 || bytes.count == 64,
            let key = try? Curve25519.Signing.PrivateKey(rawRepresentation: bytes.prefix(32))
        else { return nil }
        if bytes.count == 64, !key.publicKey.rawRepresentation.elementsEqual(bytes.suffix(32)) { return nil }
        self.key = key
    }

    /// The text with its prefix.
    public var text: String { Self.prefix + Base64Text.encode(Array(key.rawRepresentation)) }

    public var description: String { Self.prefix + "…" }

    /// The public key, which receivers need to verify signatures of this key.
    public var publicKey: WebhookPublicKey { WebhookPublicKey(key.publicKey) }

    /// - Throws: an error of the cryptography library if the system provides no random bytes.
    func signature(of message: SignedMessage) throws -> [UInt8] {
        Array(try key.signature(for: message.head + message.body))
    }
}

/// A sender's public key, for signatures of the scheme `v1a`.
///
/// The key's text is `whpk_` followed by the base64 of 32 bytes.
public struct WebhookPublicKey: Sendable, CustomStringConvertible {
    /// The beginning of a public key's text.
    public static let prefix = "whpk_"

    private let key: Curve25519.Signing.PublicKey

    init(_ key: Curve25519.Signing.PublicKey) {
        self.key = key
    }

    /// Reads a key with or without its prefix.
    ///
    /// - Returns: nil if the text after the prefix is not base64 of 32 bytes.
    public init?(_ text: String) {
        let encoded = text.hasPrefix(Self.prefix) ? text.dropFirst(Self.prefix.count) : text[...]
        guard let bytes = Base64Text.decode(encoded), bytes.count == 32,
            let key = try? Curve25519.Signing.PublicKey(rawRepresentation: bytes)
        else { return nil }
        self.key = key
    }

    /// The text with its prefix.
    public var text: String { Self.prefix + Base64Text.encode(Array(key.rawRepresentation)) }

    public var description: String { text }

    func verifies(_ signature: [UInt8], of message: SignedMessage) -> Bool {
        key.isValidSignature(signature, for: message.head + message.body)
    }
}

/// A secret that sender and receiver share, for signatures of the scheme `v1`.
///
/// The scheme is HMAC-SHA256. The secret's text is `whsec_` followed by the base64 of 24 to 64 bytes. The description
/// does not contain the text, so that the text is never logged.
public struct WebhookSecret: Sendable, Hashable, CustomStringConvertible {
    /// The beginning of a secret's text.
    public static let prefix = "whsec_"
    /// The allowed sizes of a secret, in bytes.
    public static let sizes = 24...64

    let bytes: [UInt8]

    /// Creates a secret of 32 random bytes.
    public init() {
        bytes = SymmetricKey(size: .bits256).withUnsafeBytes { Array($0) }
    }

    /// Reads a secret with or without its prefix.
    ///
    /// - Returns: nil if the text after the prefix is not base64 of 24 to 64 bytes.
    public init?(_ text: String) {
        let encoded = text.hasPrefix(Self.prefix) ? text.dropFirst(Self.prefix.count) : text[...]
        guard let bytes = Base64Text.decode(encoded), Self.sizes.contains(bytes.count) else { return nil }
        self.bytes = bytes
    }

    /// The text with its prefix.
    public var text: String { Self.prefix + Base64Text.encode(bytes) }

    public var description: String { Self.prefix + "…" }

    func signature(of message: SignedMessage) -> [UInt8] {
        var code = HMAC<SHA256>(key: SymmetricKey(data: bytes))
        code.update(data: message.head)
        code.update(data: message.body)
        return Array(code.finalize())
    }

    /// Compares two signatures. The comparison takes the same time for every signature of the right length.
    static func areSame(_ own: [UInt8], _ signature: [UInt8]) -> Bool {
        guard own.count == signature.count else { return false }
        return zip(own, signature).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }
}

/// Base64 with padding (RFC 4648, 4).
enum Base64Text {
    static func encode(_ bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }

    /// Decodes a text, with or without its padding. Apart from the padding, the text must be exactly the text that
    /// ``encode(_:)`` returns for the same bytes; otherwise the result is nil.
    static func decode(_ text: some StringProtocol) -> [UInt8]? {
        let digits = text.utf8.count
        guard digits % 4 != 1, text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else { return nil }
        let padded = String(text) + (digits % 4 == 0 ? "" : String(repeating: "=", count: 4 - digits % 4))
        guard let data = Data(base64Encoded: padded) else { return nil }
        let bytes = Array(data)
        // unused bits of the last digit must be 0, so that each value has only one accepted text
        return encode(bytes) == padded ? bytes : nil
    }
}
