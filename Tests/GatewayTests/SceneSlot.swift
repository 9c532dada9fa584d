import Synchronization

/// Room for one scene. Tests begin all at once: without a bound they would be so slow together that what is late for a
/// reason could not be told from what is late for none. A test has one scene, so that none waits for its own.
final class SceneSlot: Sendable {
    private struct State {
        var free = 8
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private static let state = Mutex(State())

    private init() {}

    deinit {
        let next = Self.state.withLock { state in
            if state.waiting.isEmpty {
                state.free += 1
                return nil as CheckedContinuation<Void, Never>?
            }
            return state.waiting.removeFirst()
        }
        next?.resume()
    }

    /// Waits for room; it is given back with the last reference.
    static func take() async -> SceneSlot {
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                if state.free > 0 {
                    state.free -= 1
                    return true
                }
                state.waiting.append(continuation)
                return false
            }
            if isFree { continuation.resume() }
        }
        return SceneSlot()
    }
}
