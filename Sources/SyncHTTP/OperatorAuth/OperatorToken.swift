import Crypto
package import SyncModel

/// A secret for `/admin`: its owner and its scope. Of the secret itself only a digest is kept.
package struct OperatorToken: Sendable, Equatable {
    /// The name of an operator whose token has no name.
    package static let usualName = "operator"
    package static let hashPrefix = "sha256:"

    /// The operator's name in the audit log.
    @Exact package private(set) var name: String
    package let scope: OperatorScope
    /// SHA-256 of the secret.
    package let digest: [UInt8]

    /// Reads `[name@][scope:]secret`, the secret in plain text or as ``OperatorTokens/hash(of:)`` gives it; nil unless it
    /// is valid: a bearer token holds letters, digits and `-._~+/=` only (RFC 6750, 2.1), so neither `@` nor `:`.
    package init?(parsing word: Substring) {
        var rest = word
        var name = Self.usualName
        if let at = rest.firstIndex(of: "@") {
            name = String(rest[..<at])
            guard Self.isValidName(name) else { return nil }
            rest = rest[rest.index(after: at)...]
        }
        var scope = OperatorScope.admin
        if let colon = rest.firstIndex(of: ":"), let named = OperatorScope(rawValue: String(rest[..<colon])) {
            scope = named
            rest = rest[rest.index(after: colon)...]
        }
        guard let digest = Self.digest(parsing: rest) else { return nil }
        self.name = name
        self.scope = scope
        self.digest = digest
    }

    /// Whether a text can be an operator's name: 1 to 32 lower-case letters, digits and hyphens.
    package static func isValidName(_ text: String) -> Bool {
        (1...32).contains(text.utf8.count)
            && text.utf8.allSatisfy { (97...122).contains($0) || (48...57).contains($0) || $0 == UInt8(ascii: "-") }
    }

    package static func digest(of text: some StringProtocol) -> [UInt8] {
        Array(SHA256.hash(data: Array(text.utf8)))
    }

    package static func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
        let digits = Array("0123456789abcdef")
        return String(bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] })
    }

    private static func digest(parsing word: Substring) -> [UInt8]? {
        guard word.hasPrefix(hashPrefix) else {
            return word.utf8.count >= OperatorTokens.minimumBytes && BearerToken.isToken(word) ? digest(of: word) : nil
        }
        let digits = word.dropFirst(hashPrefix.count).utf8.map { Character(UnicodeScalar($0)).hexDigitValue }
        guard digits.count == 64, digits.allSatisfy({ $0 != nil }) else { return nil }
        let values = digits.map { UInt8($0 ?? 0) }
        return stride(from: 0, to: 64, by: 2).map { values[$0] << 4 | values[$0 + 1] }
    }
}
