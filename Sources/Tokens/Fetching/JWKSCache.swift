import JSONText
import SyncModel
import Synchronization

/// The keys that a provider publishes at a URL, as last fetched.
final class JWKSCache: Sendable {
    /// How long a request waits for a fetch.
    static let timeout: Duration = .seconds(3)

    private struct State {
        var schedule = JWKSCacheState()
        /// Nil before the first successful fetch.
        var keys: [TokenKey]?
        var text: [UInt8] = []
        var etag: String?
        var waiters: [AsyncStream<Never>.Continuation] = []
    }

    let url: String
    private let wake: @Sendable () -> Void
    private let state = Mutex(State())

    /// - Parameter wake: makes the fetching task call ``begin(at:)``.
    init(url: String, wake: @escaping @Sendable () -> Void) {
        self.url = url
        self.wake = wake
    }

    /// The keys; nil before the first successful fetch.
    var keys: [TokenKey]? { state.withLock { $0.keys } }

    /// When they were last fetched or found unchanged; nil: never.
    var freshAt: Timestamp? { state.withLock { $0.schedule.freshAt } }

    func secondsUntilDue(at now: Timestamp) -> Int { state.withLock { $0.schedule.secondsUntilDue(at: now) } }

    // MARK: - Requests

    /// Requests a newer set and waits for it, if the rules allow that.
    ///
    /// - Returns: whether it is worth trying again.
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

    /// The fetch that is due now, if any.
    ///
    /// The caller reports its end by ``finish(_:at:)``.
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
    /// Keys that are no longer published are dropped; after a failure the keys stay. Waiting requests continue later,
    /// by ``release()``, when the keys are in force.
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
        // it may have been a mistake, so look again soon
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
