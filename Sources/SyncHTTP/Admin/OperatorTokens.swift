import Crypto
import HTTPTypes
import SyncModel

/// The secrets for `/admin`, kept as their digests. There may be several, so that one can be replaced by another
/// without a moment in which neither is valid.
package struct OperatorTokens: Sendable, Equatable {
    /// Tokens that may be configured.
    package static let maximum = 16
    /// The length of the shortest token, in bytes.
    package static let minimumBytes = 16
    private static let hashPrefix = "sha256:"

    private let digests: [[UInt8]]

    /// Reads tokens with white space between them, each in plain text or as ``hash(of:)`` gives it; nil unless all are
    /// valid: a bearer token holds letters, digits and `-._~+/=` only (RFC 6750, 2.1).
    package init?(parsing text: String) {
        let words = text.split(whereSeparator: \.isWhitespace)
        let digests = words.compactMap(Self.digest(parsing:))
        guard (1...Self.maximum).contains(words.count), digests.count == words.count else { return nil }
        self.digests = digests
    }

    /// The form of a token for configurations: `sha256:` and 64 hexadecimal digits. A machine-made token cannot be
    /// found from it.
    package static func hash(of token: String) -> String {
        let digits = Array("0123456789abcdef")
        return hashPrefix + String(digest(of: token).flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] })
    }

    /// An endpoint for operators only.
    func operators(only endpoint: @escaping Route.Endpoint) -> Route.Endpoint {
        { exchange in
            let token = try BearerToken.of(exchange.headers)
            guard matches(token) else { throw BearerToken.refusal("invalid_token", "The token is not the operator's.") }
            return try await endpoint(exchange)
        }
    }

    /// Takes the same time for every token: compares all bytes of all digests.
    func matches(_ token: some StringProtocol) -> Bool {
        let digest = Self.digest(of: token)
        var matches = 0
        for known in digests {
            var difference: UInt8 = 0
            for (left, right) in zip(known, digest) { difference |= left ^ right }
            matches += difference == 0 ? 1 : 0
        }
        return matches > 0
    }

    private static func digest(parsing word: Substring) -> [UInt8]? {
        guard word.hasPrefix(hashPrefix) else {
            return word.utf8.count >= minimumBytes && BearerToken.isToken(word) ? digest(of: word) : nil
        }
        let digits = word.dropFirst(hashPrefix.count).utf8.map { Character(UnicodeScalar($0)).hexDigitValue }
        guard digits.count == 64, digits.allSatisfy({ $0 != nil }) else { return nil }
        let values = digits.map { UInt8($0 ?? 0) }
        return stride(from: 0, to: 64, by: 2).map { values[$0] << 4 | values[$0 + 1] }
    }

    private static func digest(of text: some StringProtocol) -> [UInt8] {
        Array(SHA256.hash(data: Array(text.utf8)))
    }
}
