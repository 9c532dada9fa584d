extension TokenKeySource {
    /// What a published document holds, for whoever looks at a set-up.
    ///
    /// - Returns: how many keys are usable, and of each other one its position, counted from 1, and why it is not.
    /// - Throws: ``TokenConfigurationError`` where it is no JWKS document.
    package func examine() async throws -> (usable: Int, skipped: [String]) {
        guard text.utf8.count <= Self.maximumBytes else {
            throw TokenConfigurationError("\(name) is larger than \(Self.maximumBytes) bytes.")
        }
        let published = try await publishedKeys()
        return (published.keys.count, published.skipped.map { "key \($0.position): \($0.reason)" })
    }
}
