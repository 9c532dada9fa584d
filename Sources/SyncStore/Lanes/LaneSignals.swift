import Foundation
public import SyncModel
import Synchronization

/// Tells those in this process who have an interest in a lane that it was changed: the dispatcher, when it may be
/// claimed, and readers that wait for a mutation to be settled. Carries no data: a signal that is lost costs time only.
public final class LaneSignals: Sendable {
    private struct State {
        var onReady: (@Sendable ([LaneKey]) -> Void)?
        var watches: [LaneKey: [ObjectIdentifier: LaneWatch]] = [:]
    }

    private let state = Mutex(State())

    init() {}

    /// Names the one who is told which lanes may be claimed. Called often and from any thread: it must be quick.
    public func whenReady(_ body: (@Sendable ([LaneKey]) -> Void)?) {
        state.withLock { $0.onReady = body }
    }

    /// Says that lanes may be claimed.
    func ready(_ lanes: [LaneKey]) {
        guard !lanes.isEmpty else { return }
        state.withLock { $0.onReady }?(lanes)
    }

    /// Says that mutations of lanes were changed.
    func changed(_ lanes: [LaneKey]) {
        let watches = state.withLock { state in
            state.watches.isEmpty ? [] : lanes.flatMap { state.watches[$0].map { Array($0.values) } ?? [] }
        }
        for watch in watches { watch.signal() }
    }

    /// Watches a lane while `body` runs: what changes after the call begins is not missed.
    nonisolated(nonsending) public func watching<Value, Failure: Error>(
        _ lane: LaneKey,
        _ body: nonisolated(nonsending) (LaneWatch) async throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        let watch = LaneWatch()
        let id = ObjectIdentifier(watch)
        state.withLock { $0.watches[lane, default: [:]][id] = watch }
        defer {
            state.withLock { state in
                state.watches[lane]?[id] = nil
                if state.watches[lane]?.isEmpty == true { state.watches[lane] = nil }
            }
        }
        return try await body(watch)
    }
}

/// Tells one reader that a lane was changed since it last asked.
public final class LaneWatch: Sendable {
    private struct State {
        var isChanged = false
        var reader: CheckedContinuation<Void, Never>?
    }

    private let state = Mutex(State())

    /// Waits until the lane is changed, for at most `limit`, or until the task is cancelled. Returns at once when it was
    /// changed since the last call. One caller at a time.
    public func change(within limit: Duration) async {
        let timer = Task {
            try? await Task.sleep(for: limit)
            signal()
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if state.isChanged || Task.isCancelled { return true }
                    state.reader = continuation
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            signal()
        }
        timer.cancel()
        state.withLock { $0.isChanged = false }
    }

    func signal() {
        let reader = state.withLock { state in
            state.isChanged = true
            defer { state.reader = nil }
            return state.reader
        }
        reader?.resume()
    }
}
