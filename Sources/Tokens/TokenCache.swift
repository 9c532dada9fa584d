/// A cache for values of tokens, at most `capacity` entries, in two generations.
///
/// New and used entries go into the young one; when it is full, it becomes the old one and the old one is dropped. An
/// entry used once a generation stays; no search for a victim is ever needed.
struct TokenCache<Key: Hashable, Value> {
    private let generationCapacity: Int
    private var young: [Key: Value] = [:]
    private var old: [Key: Value] = [:]

    /// - Parameter capacity: 0 or 1 caches nothing.
    init(capacity: Int) {
        self.generationCapacity = max(0, capacity / 2)
    }

    var count: Int { young.count + old.count }

    mutating func find(_ key: Key) -> Value? {
        if let value = young[key] { return value }
        guard let value = old.removeValue(forKey: key) else { return nil }
        insert(value, for: key)
        return value
    }

    mutating func insert(_ value: Value, for key: Key) {
        guard generationCapacity > 0 else { return }
        if young.count >= generationCapacity {
            swap(&young, &old)
            young.removeAll(keepingCapacity: true)
        }
        young[key] = value
    }

    mutating func remove(_ key: Key) {
        young[key] = nil
        old[key] = nil
    }

    mutating func removeAll() {
        young.removeAll()
        old.removeAll()
    }
}
