extension TokenKeySource {
    /// - Throws: `TokenConfigurationError` when a key is unusable, or none is there.
    func keys() async throws -> [TokenKey] {
        guard text.utf8.count <= Self.maximumBytes else {
            throw TokenConfigurationError("\(name) is larger than \(Self.maximumBytes) bytes.")
        }
        return text.first(where: { !$0.isWhitespace }) == "{" ? try await jwksKeys() : try await pemKeys()
    }
}
