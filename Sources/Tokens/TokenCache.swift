/// Verified tokens, at most `capacity` of them, in two generations.
///
/// New and used entries go into the young one; when it is full, it becomes the old one and the old one is dropped.
/// What is used once a generation stays; nothing is ever searched for a victim.
struct TokenCache {
    private let generationCapacity: Int
    private var young: [TokenDigest: TokenClaims] = [:]
    private var old: [TokenDigest: TokenClaims] = [:]

    /// `capacity` 0 or 1 remembers nothing.
    init(capacity: Int) {
        self.generationCapacity = max(0, capacity / 2)
    }

    var count: Int { young.count + old.count }

    mutating func find(_ digest: TokenDigest) -> TokenClaims? {
        if let claims = young[digest] { return claims }
        guard let claims = old.removeValue(forKey: digest) else { return nil }
        insert(claims, for: digest)
        return claims
    }

    mutating func insert(_ claims: TokenClaims, for digest: TokenDigest) {
        guard generationCapacity > 0 else { return }
        if young.count >= generationCapacity {
            swap(&young, &old)
            young.removeAll(keepingCapacity: true)
        }
        young[digest] = claims
    }

    mutating func remove(_ digest: TokenDigest) {
        young[digest] = nil
        old[digest] = nil
    }

    mutating func removeAll() {
        young.removeAll()
        old.removeAll()
    }
}
