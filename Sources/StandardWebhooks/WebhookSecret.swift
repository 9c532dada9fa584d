import Crypto
import FoundationEssentials

/// A secret that sender and receiver share, for signatures of the scheme `v1`.
///
/// HMAC-SHA256. Its text is `whsec_` and the base64 of 24 to 64 bytes. Never logged: its description is not its text.
public struct WebhookSecret: Sendable, Hashable, CustomStringConvertible {
    /// The beginning of a secret's text.
    public static let prefix = "whsec_"
    /// Bytes of a secret.
    public static let sizes = 24...64

    let bytes: [UInt8]

    /// A new secret of 32 random bytes.
    public init() {
        bytes = SymmetricKey(size: .bits256).withUnsafeBytes { Array($0) }
    }

    /// Reads a secret with or without its prefix.
    ///
    /// - Returns: nil where the rest is not base64 of 24 to 64 bytes.
    public init?(_ text: String) {
        let encoded = text.hasPrefix(Self.prefix) ? text.dropFirst(Self.prefix.count) : text[...]
        guard let bytes = Base64Text.decode(encoded), Self.sizes.contains(bytes.count) else { return nil }
        self.bytes = bytes
    }

    /// With its prefix.
    public var text: String { Self.prefix + Base64Text.encode(bytes) }

    public var description: String { Self.prefix + "…" }

    func signature(of message: SignedMessage) -> [UInt8] {
        var code = HMAC<SHA256>(key: SymmetricKey(data: bytes))
        code.update(data: message.head)
        code.update(data: message.body)
        return Array(code.finalize())
    }

    /// Takes as long for every signature of the right length.
    static func areSame(_ own: [UInt8], _ signature: [UInt8]) -> Bool {
        guard own.count == signature.count else { return false }
        return zip(own, signature).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }
}
