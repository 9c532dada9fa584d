/// A text with public keys: PEM blocks or a JWKS document.
///
/// Its first character distinguishes the two.
package struct TokenKeySource: Sendable, Equatable {
    /// The largest source, in bytes.
    package static let maximumBytes = 1_048_576

    /// The origin for error messages: a file's path or a URL.
    package let name: String
    package let text: String

    package static func == (left: Self, right: Self) -> Bool {
        left.name.utf8.elementsEqual(right.name.utf8) && left.text.utf8.elementsEqual(right.text.utf8)
    }

    package init(name: String, text: String) {
        self.name = name
        // a byte order mark is no part of a text (RFC 8259, 8.1 allows ignoring it)
        let hasMark = text.unicodeScalars.first == "\u{feff}"
        self.text = hasMark ? String(text.unicodeScalars.dropFirst()) : text
    }
}

extension TokenKeySource {
    /// Its keys, where the operator configured it.
    ///
    /// - Throws: `TokenConfigurationError` when a key is unusable, or no key is there.
    func keys() async throws -> [TokenKey] {
        try requireSize()
        return text.first(where: { !$0.isWhitespace }) == "{" ? try await jwksKeys() : try await pemKeys()
    }

    /// Checks a published document, for `sluice doctor`.
    ///
    /// - Returns: the number of usable keys, and for each skipped one its position, counted from 1, and the reason.
    /// - Throws: ``TokenConfigurationError`` where it is no JWKS document.
    package func examine() async throws -> (usable: Int, skipped: [String]) {
        try requireSize()
        let published = try await publishedKeys()
        return (published.keys.count, published.skipped.map { "key \($0.position): \($0.reason)" })
    }

    private func requireSize() throws {
        guard text.utf8.count <= Self.maximumBytes else {
            throw TokenConfigurationError("\(name) is larger than \(Self.maximumBytes) bytes.")
        }
    }
}
