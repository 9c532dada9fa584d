import Synchronization

/// Room for so many at a time. Tests begin all at once: without a bound they would be so slow together that what is late
/// for a reason could not be told from what is late for none.
public final class Slots: Sendable {
    private struct State {
        var free: Int
        var waiting: [(number: Int, continuation: CheckedContinuation<Void, Never>)] = []
        var next = 0
        /// When somebody was let in last.
        var lastEntry = ContinuousClock.now
    }

    /// How long nobody is let in until somebody is all the same: those who wait may be those who hold what there is.
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
            var rest = Self.patience
            while rest > .zero {
                do { try await Task.sleep(for: rest) } catch { return }
                rest = self.enter(number)
            }
        }
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                if state.free > 0 {
                    state.free -= 1
                    state.lastEntry = .now
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

    /// Lets somebody in for whom there is no room, if nobody was let in for long; answers how long to wait on.
    private func enter(_ number: Int) -> Duration {
        let (one, rest) = state.withLock { state -> (CheckedContinuation<Void, Never>?, Duration) in
            let rest = Self.patience - (.now - state.lastEntry)
            guard rest <= .zero, let index = state.waiting.firstIndex(where: { $0.number == number }) else {
                return (nil, rest)
            }
            // one more than there is room for
            state.free -= 1
            state.lastEntry = .now
            return (state.waiting.remove(at: index).continuation, .zero)
        }
        one?.resume()
        return rest
    }

    fileprivate func giveBack() {
        let next = state.withLock { state in
            state.free += 1
            guard state.free > 0, !state.waiting.isEmpty else { return nil as CheckedContinuation<Void, Never>? }
            state.free -= 1
            state.lastEntry = .now
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
