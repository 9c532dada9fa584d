import JSONText
import SyncModel
import Synchronization

/// The keys that were last fetched from a provider's URL.
final class JWKSCache: Sendable {
    /// The maximum time for which a request waits for a fetch.
    static let timeout: Duration = .seconds(3)

    private struct State {
        var schedule = JWKSCacheState()
        /// The keys; nil before the first successful fetch.
        var keys: [TokenKey]?
        var text: [UInt8] = []
        var etag: String?
        var waiters: [AsyncStream<Never>.Continuation] = []
    }

    let url: String
    private let wake: @Sendable () -> Void
    private let state = Mutex(State())

    /// - Parameter wake: wakes the task that fetches keys. This task calls ``begin(at:)``.
    init(url: String, wake: @escaping @Sendable () -> Void) {
        self.url = url
        self.wake = wake
    }

    /// The keys; nil before the first successful fetch.
    var keys: [TokenKey]? { state.withLock { $0.keys } }

    /// When the keys were last fetched or found unchanged; nil before the first success.
    var freshAt: Timestamp? { state.withLock { $0.schedule.freshAt } }

    func secondsUntilDue(at now: Timestamp) -> Int { state.withLock { $0.schedule.secondsUntilDue(at: now) } }

    // MARK: - Requests

    /// Triggers a fetch of a newer key set and waits for the fetch, if the rules allow this (``JWKSCacheState``).
    ///
    /// - Returns: whether the token should be verified again.
    func demand(at now: Timestamp) async -> Bool {
        let (fetched, continuation) = AsyncStream<Never>.makeStream()
        let demand = state.withLock { state in
            let demand = state.schedule.demand(at: now, waiting: state.waiters.count)
            if demand == .wait { state.waiters.append(continuation) }
            return demand
        }
        guard demand == .wait else { return false }
        wake()
        await withTaskGroup(of: Void.self) { group in
            group.addTask { for await _ in fetched {} }
            group.addTask { try? await Task.sleep(for: Self.timeout) }
            await group.next()
            group.cancelAll()
        }
        return true
    }

    // MARK: - Fetching

    struct Start: Sendable {
        /// The `ETag` of the current keys.
        let etag: String?
    }

    /// Returns the fetch that is due now; nil if no fetch is due.
    ///
    /// The caller reports the end of the fetch with ``finish(_:at:)``.
    func begin(at now: Timestamp) -> Start? {
        state.withLock { $0.schedule.begin(at: now) ? Start(etag: $0.etag) : nil }
    }

    struct Result: Sendable {
        let outcome: JWKSCacheState.Outcome
        var reason: String?
        var isToBeWarnedOf = false
        var skipped: [SkippedKey] = []
        var count = 0
    }

    /// Applies a fetch's answer.
    ///
    /// Keys that are no longer published are removed. After a failure, the keys are kept. Waiting requests continue
    /// when the caller calls ``release()``, after the verifier has received the new keys.
    func finish(_ answer: KeySetAnswer, at now: Timestamp) async -> Result {
        switch answer {
        case .failed(let reason):
            return fail(reason, at: now)
        case .unchanged(let cacheControl):
            // without keys from an earlier answer, "unchanged" is an error
            guard keys != nil else { return fail("the response is empty, and no keys are cached", at: now) }
            return succeed(cacheControl, at: now) { _ in .unchanged }
        case .document(let document, let etag, let cacheControl):
            let text = document.withoutByteOrderMark
            if state.withLock({ $0.keys != nil && $0.text == text }) {
                return succeed(cacheControl, at: now) { state in
                    state.etag = etag
                    return .unchanged
                }
            }
            return await take(text, etag, cacheControl, at: now)
        }
    }

    /// Resumes waiting requests.
    func release() {
        let waiters = state.withLock { state in
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.finish() }
    }

    private func take(_ text: [UInt8], _ etag: String?, _ cacheControl: String?, at now: Timestamp) async -> Result {
        guard text.count <= TokenKeySource.maximumBytes else { return fail("the document is too large", at: now) }
        let source = TokenKeySource(name: "the document", text: String(decoding: text, as: UTF8.self))
        let published: PublishedKeys
        do {
            published = try await source.publishedKeys()
        } catch {
            return fail("\(error)", at: now)
        }
        guard !published.keys.isEmpty || published.withdrawsAll else {
            return fail("the document contains no usable key", at: now)
        }
        // an empty key set may be a mistake, so it is fetched again soon
        let age = published.keys.isEmpty ? "no-cache" : cacheControl
        var result = succeed(age, at: now) { state in
            state.keys = published.keys
            state.text = text
            state.etag = etag
            return .changed
        }
        result.skipped = published.skipped
        result.count = published.keys.count
        return result
    }

    private func succeed(
        _ cacheControl: String?,
        at now: Timestamp,
        _ change: (inout State) -> JWKSCacheState.Outcome
    ) -> Result {
        let age = CacheControl.maximumAge(cacheControl)
        return state.withLock { state in
            let outcome = change(&state)
            _ = state.schedule.finish(outcome, maximumAge: age, at: now, luck: .random(in: 0..<1))
            return Result(outcome: outcome)
        }
    }

    private func fail(_ reason: String, at now: Timestamp) -> Result {
        let isToBeWarnedOf = state.withLock {
            $0.schedule.finish(.failed, maximumAge: nil, at: now, luck: .random(in: 0..<1))
        }
        return Result(outcome: .failed, reason: reason, isToBeWarnedOf: isToBeWarnedOf)
    }
}

// MARK: - JWKSCacheState

/// The rules for fetching a provider's keys, and for waiting for a fetch. This type does no I/O.
///
/// A key set is fetched again when it is about to expire, after a failed fetch (with growing pauses), and if a token
/// names an unknown key. Any client can write a token that names an unknown key. Therefore the tokens of all callers
/// together trigger at most one fetch in each ``demandPause``, and at most ``maximumWaiters`` requests wait for this
/// fetch.
struct JWKSCacheState: Sendable {
    /// The minimum and the maximum time for which a key set is used, in seconds.
    ///
    /// If the provider does not specify a time, ``defaultAge`` is used.
    static let ages: ClosedRange<Double> = 60...3_600
    static let defaultAge: Double = 600
    /// The pause after the first failure, and the maximum pause, in seconds.
    ///
    /// The pause doubles with each further failure.
    static let failurePauses: ClosedRange<Double> = 2...60
    /// The minimum time between fetches because of unknown keys, in seconds.
    static let demandPause: Double = 30
    /// The maximum number of requests that wait for a fetch.
    static let maximumWaiters = 64
    /// The minimum time between warnings about a provider that keeps failing, in seconds.
    static let warningPause: Double = 600

    /// The next step of a request whose token names an unknown key.
    enum Demand: Equatable {
        /// Wait for the fetch that the request triggers, or for the fetch in progress.
        case wait
        /// Refuse the token immediately.
        case refuse
    }

    /// The result of a fetch.
    enum Outcome: String, CaseIterable {
        case changed, unchanged, failed
    }

    private(set) var isFetching = false
    /// When the key set was last fetched or found unchanged; nil before the first success.
    private(set) var freshAt: Timestamp?
    private(set) var failures = 0
    private var dueAt: Timestamp?
    private var demandedAt: Timestamp?
    private var warnedAt: Timestamp?
    private var isDemanded = false

    /// Decides whether a request whose token names an unknown key waits.
    mutating func demand(at now: Timestamp, waiting: Int) -> Demand {
        if !isFetching, !isDemanded {
            // a time in the future was recorded before the clock was set back
            if let demandedAt, demandedAt <= now, demandedAt.adding(seconds: Self.demandPause) > now { return .refuse }
            demandedAt = now
            isDemanded = true
        }
        return waiting < Self.maximumWaiters ? .wait : .refuse
    }

    /// Returns whether a fetch is due now.
    ///
    /// If a fetch is due, the caller starts it, and reports its end with ``finish(_:maximumAge:at:luck:)``.
    mutating func begin(at now: Timestamp) -> Bool {
        guard !isFetching, isDemanded || isDue(at: now) else { return false }
        isFetching = true
        isDemanded = false
        return true
    }

    /// Records the end of a fetch.
    ///
    /// - Parameters:
    ///   - maximumAge: the maximum age that the provider specifies, in seconds; nil if it specifies none.
    ///   - luck: a random number from 0 to 1, new for each call, so that gateways do not all fetch at the same time.
    /// - Returns: whether to log a warning about a failure.
    mutating func finish(_ outcome: Outcome, maximumAge: Int64?, at now: Timestamp, luck: Double) -> Bool {
        isFetching = false
        guard outcome == .failed else {
            let age = maximumAge.map { Double(min($0, 1_000_000)) } ?? Self.defaultAge
            let bounded = min(max(age, Self.ages.lowerBound), Self.ages.upperBound)
            // the random part only makes the fetch earlier, never later
            dueAt = now.adding(seconds: bounded * (1 - 0.2 * luck))
            freshAt = now
            failures = 0
            warnedAt = nil
            return false
        }
        let pause = Self.failurePauses.lowerBound * Double(1 << min(failures, 10))
        dueAt = now.adding(seconds: min(pause, Self.failurePauses.upperBound) * (1 - 0.2 * luck))
        failures += 1
        if let warnedAt, warnedAt <= now, warnedAt.adding(seconds: Self.warningPause) > now { return false }
        warnedAt = now
        return true
    }

    /// The number of seconds until the next fetch, for `Retry-After`; at least 1.
    func secondsUntilDue(at now: Timestamp) -> Int {
        guard !isFetching, let dueAt, dueAt > now else { return 1 }
        let seconds = (dueAt.microseconds - now.microseconds + 999_999) / 1_000_000
        return Int(min(max(seconds, 1), Int64(Self.failurePauses.upperBound)))
    }

    private func isDue(at now: Timestamp) -> Bool {
        guard let dueAt else { return true }
        // if the wait is longer than the maximum, the clock was set back
        return dueAt <= now || now.adding(seconds: Self.ages.upperBound) < dueAt
    }
}

/// The part of `Cache-Control` (RFC 9111, 5.2) that limits the use of a key set.
enum CacheControl {
    /// The maximum age in seconds; nil if the field does not specify it.
    ///
    /// It is 0 for `no-store` and `no-cache`.
    static func maximumAge(_ text: String?) -> Int64? {
        guard let text else { return nil }
        var age: Int64?
        for directive in text.split(separator: ",") {
            let parts = directive.split(separator: "=", maxSplits: 1).map { part in
                [" ", "\t", "\""].reduce(String(part)) { $0.replacing($1, with: "") }.lowercased()
            }
            switch (parts.first, parts.count) {
            case ("no-store", _), ("no-cache", _): return 0
            case ("max-age", 2) where !parts[1].isEmpty && parts[1].utf8.allSatisfy { (48...57).contains($0) }:
                // a number that is too large for the type exceeds any permitted age
                age = min(age ?? .max, Int64(parts[1]) ?? .max)
            default: continue
            }
        }
        return age
    }
}
