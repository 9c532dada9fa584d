import Foundation
public import SyncModel
import Synchronization

/// Tells those in this process who have an interest in a lane that it was changed: the dispatcher, when it may be
/// claimed, and readers that wait for a mutation to be settled. Carries no data: a signal that is lost costs time only.
public final class LaneSignals: Sendable {
    private struct State {
        var onReady: (@Sendable ([LaneKey]) -> Void)?
        var waiters: [LaneKey: [UUID: CheckedContinuation<Void, Never>]] = [:]
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
        let waiting = state.withLock { state -> [CheckedContinuation<Void, Never>] in
            guard !state.waiters.isEmpty else { return [] }
            return lanes.flatMap { lane in state.waiters.removeValue(forKey: lane).map { Array($0.values) } ?? [] }
        }
        for waiter in waiting { waiter.resume() }
    }

    /// Waits until a lane is changed, for at most `limit`, or until the task is cancelled.
    func change(of lane: LaneKey, within limit: Duration) async {
        let id = UUID()
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                await withTaskCancellationHandler {
                    await withCheckedContinuation { continuation in
                        let isCancelled = self.state.withLock { state -> Bool in
                            if Task.isCancelled { return true }
                            state.waiters[lane, default: [:]][id] = continuation
                            return false
                        }
                        if isCancelled { continuation.resume() }
                    }
                } onCancel: {
                    self.giveUp(id, lane)
                }
            }
            group.addTask { try? await Task.sleep(for: limit) }
            await group.next()
            group.cancelAll()
        }
    }

    private func giveUp(_ id: UUID, _ lane: LaneKey) {
        let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
            let waiter = state.waiters[lane]?.removeValue(forKey: id)
            if state.waiters[lane]?.isEmpty == true { state.waiters[lane] = nil }
            return waiter
        }
        waiter?.resume()
    }
}
