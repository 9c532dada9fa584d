import Crypto
import Synchronization

/// Users' keys in memory, of all organizations together.
///
/// As many as fit, each for some minutes.
///
/// A missing key is remembered for a few seconds only: long enough for a page of rows whose key was destroyed.
public final class UserKeyRing: Sendable {
    /// The cached state of a user's key.
    enum Holding: Sendable {
        case key(SymmetricKey)
        /// It is stored, and cannot be unwrapped.
        case closed(String)
        /// It is not stored: it was destroyed, or never made.
        case gone
        /// It was not to be made either.
        case refused

        /// Seconds for which it is believed.
        var lifetime: Duration {
            switch self {
            case .key: .seconds(600)
            case .closed, .gone, .refused: .seconds(5)
            }
        }
    }

    /// Keys in memory at most.
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

    /// Whether the key to seal a user's rows with is known.
    public func canSeal(_ user: LaneKey) -> Bool {
        switch find(user) {
        case .key, .closed, .refused: true
        case .gone, nil: false
        }
    }

    /// Whether it is known if the key exists.
    public func isKnown(_ user: LaneKey) -> Bool { find(user) != nil }

    /// Caches a stored key.
    public func insert(_ wrapped: WrappedUserKey, _ masters: MasterKeys?) {
        do throws(SealError) {
            insert(.key(try wrapped.unwrapped(masters)), for: wrapped.name)
        } catch {
            insert(.closed(error.description), for: wrapped.name)
        }
    }

    /// Remembers that a user has no key, and whether making one was refused.
    public func insertNone(for user: LaneKey, isRefused: Bool) {
        insert(isRefused ? .refused : .gone, for: user)
    }

    private func insert(_ holding: Holding, for user: LaneKey) {
        held.withLock { $0.insert((holding, .now), for: user) }
    }

    /// Forgets keys that were destroyed.
    public func forget(_ users: [LaneKey]) {
        held.withLock { held in
            for user in users { held.remove(user) }
        }
    }

    public func removeAll() { held.withLock { $0.removeAll() } }

    /// How many there are.
    var count: Int { held.withLock { $0.count } }
}

/// Collects the users whose keys are not in memory, of many values.
///
/// One statement then fetches them all.
public struct LackingKeys {
    private var unknown: Set<LaneKey> = []
    private var missing: Set<LaneKey> = []

    public init() {}

    /// Records the keys that a value lacks, so that the next one can be read.
    ///
    /// - Returns: nil where keys are lacking.
    /// - Throws: what `body` throws for other reasons.
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

    /// - Throws: ``SealError/unknownUserKeys(_:)``, ``SealError/noUserKeys(_:)`` where anything was lacking.
    public func check() throws(SealError) {
        if !unknown.isEmpty { throw .unknownUserKeys(unknown) }
        if !missing.isEmpty { throw .noUserKeys(missing) }
    }
}
