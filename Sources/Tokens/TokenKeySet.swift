import SyncModel

/// All keys of an issuer that are in force.
struct TokenKeySet: Sendable {
    /// The most keys of a set.
    ///
    /// A token without `kid` is tried against every key of its algorithm, so there must not be many.
    static let maximumKeys = 64

    let keys: [TokenKey]

    init(_ keys: [TokenKey]) {
        self.keys = keys
    }

    /// The configured keys: a secret, and those of sources.
    ///
    /// - Throws: `TokenConfigurationError` for an unusable secret or source.
    static func keys(secret: [UInt8]?, sources: [TokenKeySource]) async throws -> [TokenKey] {
        var keys: [TokenKey] = []
        if let secret {
            guard secret.count >= 16 else {
                throw TokenConfigurationError(
                    "The JWT secret has \(secret.count) bytes; it needs at least 16, and should have 32 or more."
                )
            }
            keys.append(try await .secret(secret))
        }
        for source in sources {
            keys += try await source.keys()
        }
        guard keys.count <= maximumKeys else {
            throw TokenConfigurationError("\(keys.count) JWT keys are configured; at most \(maximumKeys) may be.")
        }
        return keys
    }

    /// The keys that may have signed a token with this header.
    ///
    /// A key with an id speaks only for tokens that name it or name none; a key without (a secret, PEM) for all of its
    /// algorithm, unless the token's id is another key's.
    func candidates(algorithm: String, id: String?) throws(TokenError) -> [TokenKey] {
        guard let algorithm = TokenAlgorithm(rawValue: algorithm) else { throw .algorithmNotAllowed }
        let id = id.map { ByteExactString($0) }
        let named = id.map { id in keys.filter { $0.id == id } } ?? []
        let eligible = named.isEmpty ? keys.filter { id == nil || $0.id == nil } : named
        guard !eligible.isEmpty else { throw .unknownKey }
        let candidates = eligible.filter { $0.algorithm == algorithm }
        guard candidates.isEmpty else { return candidates }
        // The algorithm is in use, but under other ids: the key may be newer than this key set.
        throw named.isEmpty && keys.contains { $0.algorithm == algorithm } ? .unknownKey : .algorithmNotAllowed
    }

    /// Whether a key has this id.
    func knows(_ id: String) -> Bool { keys.contains { $0.id == ByteExactString(id) } }
}
