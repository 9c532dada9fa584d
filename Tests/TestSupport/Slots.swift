import Synchronization

/// Room for so many at a time. Tests begin all at once: without a bound they would be so slow together that what is late
/// for a reason could not be told from what is late for none.
public final class Slots: Sendable {
    private struct State {
        var free: Int
        var waiting: [(number: Int, continuation: CheckedContinuation<Void, Never>)] = []
        var next = 0
    }

    /// How long somebody waits for room at most: one who holds some already must not wait for ever.
    private static let patience: Duration = .seconds(20)

    private let state: Mutex<State>

    /// - Parameter count: how many there is room for.
    public init(_ count: Int) {
        state = Mutex(State(free: count))
    }

    /// Waits for room; it is given back with the last reference.
    public func take() async -> Slot {
        let number = state.withLock { state in
            state.next += 1
            return state.next
        }
        let limit = Task {
            try? await Task.sleep(for: Self.patience)
            if !Task.isCancelled { self.giveUp(number) }
        }
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                if state.free > 0 {
                    state.free -= 1
                    return true
                }
                state.waiting.append((number, continuation))
                return false
            }
            if isFree { continuation.resume() }
        }
        limit.cancel()
        return Slot(self)
    }

    private func giveUp(_ number: Int) {
        let one = state.withLock { state in
            state.waiting.firstIndex { $0.number == number }.map { index in
                // one more than there is room for
                state.free -= 1
                return state.waiting.remove(at: index)
            }
        }
        one?.continuation.resume()
    }

    fileprivate func giveBack() {
        let next = state.withLock { state in
            state.free += 1
            guard state.free > 0, !state.waiting.isEmpty else { return nil as CheckedContinuation<Void, Never>? }
            state.free -= 1
            return state.waiting.removeFirst().continuation
        }
        next?.resume()
    }
}

/// Room for one.
public final class Slot: Sendable {
    private let slots: Slots

    fileprivate init(_ slots: Slots) {
        self.slots = slots
    }

    deinit { slots.giveBack() }
}
