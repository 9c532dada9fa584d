import DequeModule
import Synchronization

/// Looks up rows by key for many callers at once.
///
/// Keys that are requested while a look-up is under way are collected, and the next one looks them up together. So many
/// requests with invented keys cost one statement for each round trip, and neither the database nor a caller with a
/// valid key has to wait for their rejection.
///
/// Waiting callers are not counted: each has its own connection, and those are.
package final class GatheredLookup<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private typealias Waiter = CheckedContinuation<Result<Value?, any Error>, Never>

    private struct State {
        package var waiters: [Key: [Waiter]] = [:]
        /// The keys of `waiters`, in the order in which they were first asked for.
        package var keys: Deque<Key> = []
        package var isLooking = false
    }

    private let limit: Int
    private let fetch: @Sendable (_ keys: [Key]) async throws -> [Key: Value]
    private let state = Mutex(State())

    /// - Parameters:
    ///   - limit: keys of one look-up at most.
    ///   - fetch: answers the values of different keys, as far as they exist.
    package init(limit: Int = 256, _ fetch: @escaping @Sendable (_ keys: [Key]) async throws -> [Key: Value]) {
        self.limit = limit
        self.fetch = fetch
    }

    /// The value of a key, at a moment after the call.
    ///
    /// - Throws: the error of the look-up with the key.
    package func find(_ key: Key) async throws -> Value? {
        try await withCheckedContinuation { waiter in
            let mustBegin = state.withLock { state in
                if state.waiters[key] == nil { state.keys.append(key) }
                state.waiters[key, default: []].append(waiter)
                defer { state.isLooking = true }
                return !state.isLooking
            }
            if mustBegin { Task { await fetchAll() } }
        }.get()
    }

    private func fetchAll() async {
        while let batch = nextBatch() {
            let found: Result<[Key: Value], any Error>
            do {
                found = .success(try await fetch(Array(batch.keys)))
            } catch {
                found = .failure(error)
            }
            for (key, waiters) in batch {
                for waiter in waiters { waiter.resume(returning: found.map { $0[key] }) }
            }
        }
    }

    /// Nil once no caller waits.
    private func nextBatch() -> [Key: [Waiter]]? {
        state.withLock { state in
            var batch: [Key: [Waiter]] = [:]
            while batch.count < limit, let key = state.keys.popFirst() {
                batch[key] = state.waiters.removeValue(forKey: key)
            }
            state.isLooking = !batch.isEmpty
            return batch.isEmpty ? nil : batch
        }
    }
}
