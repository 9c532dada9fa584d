import Crypto
import FoundationEssentials

/// The master keys of a gateway. The first key wraps new data keys, and all keys unwrap data keys.
public struct MasterKeys: Sendable {
    /// The maximum size of a file of master keys, in bytes.
    public static let maximumBytes = 65_536

    /// The key that wraps new data keys; nil if no new data keys can be created.
    ///
    /// If nil, sealed values can still be opened, and organizations with data keys continue to use these keys.
    /// Organizations without a data key do not get a data key.
    public let wrapping: MasterKey?
    private let keys: [ByteExactString: MasterKey]

    /// Reads lines of the form `NAME:64 HEX DIGITS`. If the first line is `-`, there is no wrapping key.
    ///
    /// Empty lines and lines that begin with `#` are ignored.
    public init(parsing text: String) throws(MasterKeyError) {
        var list: [MasterKey] = []
        var isFirst = true
        var wraps = true
        for (index, line) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated() {
            let line = line.trimmed
            if line.isEmpty || line.hasPrefix("#") { continue }
            defer { isFirst = false }
            if line == "-", isFirst {
                wraps = false
                continue
            }
            let key = try Self.key(line, number: index + 1)
            if list.contains(where: { $0.name == key.name }) {
                throw MasterKeyError(description: "line \(index + 1) names \(key.name) a second time")
            }
            list.append(key)
        }
        guard let first = list.first else { throw MasterKeyError(description: "it contains no key") }
        wrapping = wraps ? first : nil
        keys = Dictionary(list.map { (ByteExactString($0.label), $0) }) { first, _ in first }
    }

    /// The ``MasterKey/label`` of each key, sorted.
    public var labels: [String] { keys.keys.map(\.string).sorted() }

    /// The key with a ``MasterKey/label``.
    public subscript(label: String) -> MasterKey? { keys[label] }

    private static func key(_ line: String, number: Int) throws(MasterKeyError) -> MasterKey {
        let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, MasterKey.isValidName(parts[0]) else {
            let form = "NAME:KEY, the name of letters a to z, digits, - and _"
            throw MasterKeyError(description: "line \(number) is not \(form); `sluice keys create` prints one")
        }
        guard parts[1].utf8.count == 64, let bytes = bytes(parts[1].utf8) else {
            throw MasterKeyError(description: "the key on line \(number) (\(parts[0])) is not 64 hex digits")
        }
        guard Set(bytes).count > 8 else {
            throw MasterKeyError(description: "the key on line \(number) (\(parts[0])) is not random")
        }
        return MasterKey(name: String(parts[0]), key: SymmetricKey(data: bytes))
    }

    private static func bytes(_ text: some Collection<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        var high: UInt8?
        for character in text {
            let digit: UInt8
            switch character {
            case 48...57: digit = character - 48
            case 97...102: digit = character - 87
            case 65...70: digit = character - 55
            default: return nil
            }
            if let first = high {
                bytes.append(first << 4 | digit)
                high = nil
            } else {
                high = digit
            }
        }
        return high == nil ? bytes : nil
    }
}

/// A key that wraps the organizations' data keys.
public struct MasterKey: Sendable {
    /// The operator's name for the key.
    public let name: String
    /// The text with which data keys refer to their master key.
    ///
    /// The label is the name, followed by four bytes that are computed from the key. These bytes distinguish two keys
    /// with the same name.
    public let label: String
    let key: SymmetricKey

    init(name: String, key: SymmetricKey) {
        self.name = name
        self.key = key
        let code = HMAC<SHA256>.authenticationCode(for: Array("sluice master key".utf8), using: key)
        label = name + ":" + code.prefix(4).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// A line for a file of master keys, with a new key.
    ///
    /// - Parameter name: a name that is valid according to ``isValidName(_:)``.
    public static func newLine(name: String) -> String {
        SymmetricKey(size: .bits256).withUnsafeBytes { bytes in
            name + ":" + bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        }
    }

    /// Whether a name matches `[a-z0-9][a-z0-9_-]{0,31}`.
    public static func isValidName(_ name: some StringProtocol) -> Bool {
        guard let first = name.utf8.first, name.utf8.count <= 32 else { return false }
        let isPlain: (UInt8) -> Bool = { (97...122).contains($0) || (48...57).contains($0) }
        return isPlain(first) && name.utf8.allSatisfy { isPlain($0) || $0 == 0x2d || $0 == 0x5f }
    }
}

/// An error in a text of master keys. The description contains names of keys, but no other part of the text.
public struct MasterKeyError: Error, Sendable, Hashable, CustomStringConvertible {
    public let description: String
}
