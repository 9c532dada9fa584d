import Crypto
import SyncModel

/// The secrets for `/admin`, kept as their digests.
///
/// There may be several, so that a replacement leaves no moment in which neither is valid, and so that each operator
/// can have a separate one.
package struct OperatorTokens: Sendable, Equatable {
    /// Tokens that may be configured.
    package static let maximum = 16
    /// The length of the shortest token, in bytes.
    package static let minimumBytes = 16

    package let all: [OperatorToken]

    /// Reads tokens with white space between them, each as ``OperatorToken/init(parsing:)`` accepts it; nil unless all
    /// are valid.
    package init?(parsing text: String) {
        let words = text.split(whereSeparator: \.isWhitespace)
        let tokens = words.compactMap(OperatorToken.init(parsing:))
        guard (1...Self.maximum).contains(words.count), tokens.count == words.count else { return nil }
        all = tokens
    }

    /// The names of a token that is configured under more than one; nil if each token has one name.
    ///
    /// Which of them the audit would name is not defined for the operators.
    package var conflictingNames: (String, String)? {
        for (index, token) in all.enumerated() {
            for other in all[..<index] where other.digest == token.digest && other.name != token.name {
                return (other.name, token.name)
            }
        }
        return nil
    }

    /// The form of a token for configurations: `sha256:` and 64 hexadecimal digits.
    ///
    /// A machine-made token cannot be found from it.
    package static func hash(of token: String) -> String {
        OperatorToken.hashPrefix + OperatorToken.hexadecimal(OperatorToken.digest(of: token))
    }

    /// The one that a text is.
    ///
    /// Finds the token of a text, in the same time for every text: it compares all bytes of all digests. Of two entries
    /// for the same token the first counts.
    package func token(_ text: some StringProtocol) -> OperatorToken? {
        let digest = OperatorToken.digest(of: text)
        var found: OperatorToken?
        for token in all.reversed() {
            var difference: UInt8 = 0
            for (left, right) in zip(token.digest, digest) { difference |= left ^ right }
            if difference == 0 { found = token }
        }
        return found
    }
}
