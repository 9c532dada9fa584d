import Crypto

/// A key that wraps the organizations' data keys.
public struct MasterKey: Sendable {
    /// The operator's name for it.
    public let name: String
    /// How data keys name their master key.
    ///
    /// The name, and four bytes that only this key gives, so that two keys of one name are distinct.
    public let label: String
    let key: SymmetricKey

    init(name: String, key: SymmetricKey) {
        self.name = name
        self.key = key
        let code = HMAC<SHA256>.authenticationCode(for: Array("sluice master key".utf8), using: key)
        label = name + ":" + code.prefix(4).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// A new key, as the line of a file.
    ///
    /// - Parameter name: valid according to ``isValidName(_:)``.
    public static func newLine(name: String) -> String {
        SymmetricKey(size: .bits256).withUnsafeBytes { bytes in
            name + ":" + bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        }
    }

    /// `[a-z0-9][a-z0-9_-]{0,31}`.
    public static func isValidName(_ name: some StringProtocol) -> Bool {
        guard let first = name.utf8.first, name.utf8.count <= 32 else { return false }
        let isPlain: (UInt8) -> Bool = { (97...122).contains($0) || (48...57).contains($0) }
        return isPlain(first) && name.utf8.allSatisfy { isPlain($0) || $0 == 0x2d || $0 == 0x5f }
    }
}
