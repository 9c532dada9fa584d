import Synchronization

/// A cache of at most `capacity` entries, in two generations.
///
/// New and used entries are stored in the young generation. When the young generation is full, it becomes the old
/// generation, and the previous old generation is dropped. Therefore an entry remains in the cache if it is used once
/// in each generation, and the cache never searches for an entry to evict.
public struct GenerationCache<Key: Hashable, Value> {
    private let generationCapacity: Int
    private var young: [Key: Value] = [:]
    private var old: [Key: Value] = [:]

    /// - Parameter capacity: the maximum number of entries. With 0 or 1, nothing is cached.
    public init(capacity: Int) {
        self.generationCapacity = max(0, capacity / 2)
    }

    public var count: Int { young.count + old.count }

    public mutating func find(_ key: Key) -> Value? {
        if let value = young[key] { return value }
        guard let value = old.removeValue(forKey: key) else { return nil }
        insert(value, for: key)
        return value
    }

    public mutating func insert(_ value: Value, for key: Key) {
        guard generationCapacity > 0 else { return }
        if young.count >= generationCapacity {
            swap(&young, &old)
            young.removeAll(keepingCapacity: true)
        }
        young[key] = value
    }

    public mutating func remove(_ key: Key) {
        young[key] = nil
        old[key] = nil
    }

    public mutating func removeAll() {
        young.removeAll()
        old.removeAll()
    }
}

/// Limits a repeated action, such as a log entry, to once in an interval.
public final class Throttle: Sendable {
    private let interval: Duration
    private let last: Mutex<ContinuousClock.Instant?>

    /// - Parameter isDueFirst: whether the first action is due immediately, or only after the interval.
    public init(_ interval: Duration, isDueFirst: Bool = false) {
        self.interval = interval
        last = Mutex(isDueFirst ? nil : .now)
    }

    /// Whether the action is due. If true, the action is not due again for one interval.
    public func isDue() -> Bool {
        last.withLock { last in
            let now = ContinuousClock.now
            if let last, now - last < interval { return false }
            last = now
            return true
        }
    }
}
