import Foundation

/// A value that the first caller sets, and for which any number of tasks can wait.
///
/// A cancelled task stops waiting immediately, even if the value is never set.
final class Promise<Value: Sendable>: Sendable {
    private typealias Waiter = CheckedContinuation<Value, any Error>

    private struct State {
        var outcome: Result<Value, any Error>?
        var waiters: [UUID: Waiter] = [:]
    }

    private let state = Locked(State())

    /// - Returns: whether this call was the first, so that its value is used.
    @discardableResult
    func set(_ outcome: Result<Value, any Error>) -> Bool {
        let waiters = state.withLock { state -> [Waiter]? in
            guard state.outcome == nil else { return nil }
            state.outcome = outcome
            defer { state.waiters = [:] }
            return Array(state.waiters.values)
        }
        for waiter in waiters ?? [] { waiter.resume(with: outcome) }
        return waiters != nil
    }

    /// The value. The getter waits until the value is set.
    ///
    /// - Throws: the error that was set instead of a value; `CancellationError`.
    var value: Value {
        get async throws {
            let id = UUID()
            return try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation { (waiter: Waiter) in
                    let outcome = state.withLock { state -> Result<Value, any Error>? in
                        if let outcome = state.outcome { return outcome }
                        if Task.isCancelled { return .failure(CancellationError()) }
                        state.waiters[id] = waiter
                        return nil
                    }
                    if let outcome { waiter.resume(with: outcome) }
                }
            } onCancel: {
                state.withLock { $0.waiters.removeValue(forKey: id) }?.resume(throwing: CancellationError())
            }
        }
    }
}

/// A value protected by a lock. (`Synchronization.Mutex` needs iOS 18.)
///
/// The class is `@unchecked`, because the compiler cannot verify that `value` is only accessed under the lock. No other
/// object has access to `value`.
package final class Locked<Value>: @unchecked Sendable {
    private let lock = NSLock()
    private var value: Value

    package init(_ value: Value) { self.value = value }

    package func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
        lock.lock()
        defer { lock.unlock() }
        return try body(&value)
    }
}
