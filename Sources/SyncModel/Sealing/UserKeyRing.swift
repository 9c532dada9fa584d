import Crypto
import Synchronization

/// A cache of the users' keys of all organizations.
///
/// The cache contains up to ``capacity`` keys, each for some minutes. The absence of a key is also cached, but only for
/// a few seconds. If a reader of a page finds keys missing in the cache, the reader fetches the keys and reads the page
/// again. Without the cached absence, the second reading would try to fetch a destroyed key again.
public final class UserKeyRing: Sendable {
    /// The cached state of a user's key.
    enum Holding: Sendable {
        case key(SymmetricKey)
        /// The key is stored, but cannot be unwrapped.
        case closed(String)
        /// The key is not stored, because it was destroyed or never created.
        case gone
        /// The key is not stored, and its creation was refused.
        case refused

        /// The time for which the cached state is used.
        var lifetime: Duration {
            switch self {
            case .key: .seconds(600)
            case .closed, .gone, .refused: .seconds(5)
            }
        }
    }

    /// The maximum number of keys in memory.
    public static let capacity = 40_000

    private let held: Mutex<GenerationCache<LaneKey, (holding: Holding, since: ContinuousClock.Instant)>>

    public init(capacity: Int = capacity) {
        held = Mutex(GenerationCache(capacity: capacity))
    }

    func find(_ user: LaneKey) -> Holding? {
        guard let (holding, since) = held.withLock({ $0.find(user) }), .now - since < holding.lifetime else {
            return nil
        }
        return holding
    }

    /// Whether a user's rows can be processed without fetching or creating the user's key first.
    ///
    /// The result is also true if the cached state is that the key cannot be unwrapped, or that its creation was
    /// refused. A look-up would not change these states.
    public func canSeal(_ user: LaneKey) -> Bool {
        switch find(user) {
        case .key, .closed, .refused: true
        case .gone, nil: false
        }
    }

    /// Whether the cache has an entry about the user's key.
    public func isKnown(_ user: LaneKey) -> Bool { find(user) != nil }

    /// Caches a stored key.
    public func insert(_ wrapped: WrappedUserKey, _ masters: MasterKeys?) {
        do throws(SealError) {
            insert(.key(try wrapped.unwrapped(masters)), for: wrapped.name)
        } catch {
            insert(.closed(error.description), for: wrapped.name)
        }
    }

    /// Caches that a user has no key, and whether the creation of a key was refused.
    public func insertNone(for user: LaneKey, isRefused: Bool) {
        insert(isRefused ? .refused : .gone, for: user)
    }

    private func insert(_ holding: Holding, for user: LaneKey) {
        held.withLock { $0.insert((holding, .now), for: user) }
    }

    /// Removes keys that were destroyed.
    public func forget(_ users: [LaneKey]) {
        held.withLock { held in
            for user in users { held.remove(user) }
        }
    }

    public func removeAll() { held.withLock { $0.removeAll() } }

    /// The number of cached entries.
    var count: Int { held.withLock { $0.count } }
}

/// Collects the users with missing keys while many values are read or written.
///
/// Afterwards, one statement can fetch the keys of all these users.
public struct LackingKeys {
    private var unknown: Set<LaneKey> = []
    private var missing: Set<LaneKey> = []

    public init() {}

    /// Calls `body` for a value, and records missing keys instead of throwing, because the next values must also be
    /// processed.
    ///
    /// - Returns: the result of `body`; nil if keys are missing.
    /// - Throws: all errors of `body`, except errors because of missing keys.
    public mutating func collect<Value, Failure: Error>(
        _ body: () throws(Failure) -> Value
    ) throws(Failure) -> Value? {
        do throws(Failure) {
            return try body()
        } catch {
            switch error as? SealError {
            case .unknownUserKeys(let users): unknown.formUnion(users)
            case .noUserKeys(let users): missing.formUnion(users)
            default: throw error
            }
        }
        return nil
    }

    /// - Throws: ``SealError/unknownUserKeys(_:)`` or ``SealError/noUserKeys(_:)`` if any key was missing.
    public func check() throws(SealError) {
        if !unknown.isEmpty { throw .unknownUserKeys(unknown) }
        if !missing.isEmpty { throw .noUserKeys(missing) }
    }
}
