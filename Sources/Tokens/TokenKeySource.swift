/// A text that holds public keys: PEM blocks or a JWKS document, told apart by their first character.
package struct TokenKeySource: Sendable, Equatable {
    /// The most bytes a source may have.
    package static let maximumBytes = 1_048_576

    /// Where the text is from, for error messages: a file's path or a URL.
    package let name: String
    package let text: String

    package init(name: String, text: String) {
        self.name = name
        self.text = text
    }
}

extension TokenKeySource {
    /// Its keys, where the operator gave it.
    ///
    /// - Throws: `TokenConfigurationError` when a key is unusable, or none is there.
    func keys() async throws -> [TokenKey] {
        try requireSize()
        return text.first(where: { !$0.isWhitespace }) == "{" ? try await jwksKeys() : try await pemKeys()
    }

    /// What a published document holds, for `sluice doctor`.
    ///
    /// - Returns: how many keys are usable, and of each other one its position, counted from 1, and why it is not.
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
