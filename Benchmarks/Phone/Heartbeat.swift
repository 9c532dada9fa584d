import Foundation
import Synchronization

/// Asks the main queue every 5 ms to answer, from a thread of its own, and notes how long each answer took.
final class Heartbeat: Sendable {
    struct Beats {
        let seconds: Double
        /// In milliseconds.
        let waits: [Double]

        func percentile(_ share: Double) -> Double {
            let sorted = waits.sorted()
            return sorted.isEmpty ? 0 : sorted[min(sorted.count - 1, Int(Double(sorted.count) * share))]
        }
    }

    private struct State {
        var isOver = false
        var waits: [Double] = []
    }

    private let began = ContinuousClock.now
    private let state = Mutex(State())

    init() {
        Thread.detachNewThread { [self] in
            while !state.withLock({ $0.isOver }) {
                ask()
                Thread.sleep(forTimeInterval: 0.005)
            }
        }
    }

    private func ask() {
        let asked = ContinuousClock.now
        DispatchQueue.main.async { [self] in
            let wait = asked.duration(to: .now) / .milliseconds(1)
            state.withLock { $0.waits.append(wait) }
        }
    }

    /// What was noted, once the last one is answered.
    func stop() async -> Beats {
        let seconds = began.duration(to: .now) / .seconds(1)
        state.withLock { $0.isOver = true }
        await withCheckedContinuation { answered in DispatchQueue.main.async { answered.resume() } }
        return Beats(seconds: seconds, waits: state.withLock { $0.waits })
    }
}
