import Foundation
import Synchronization

/// Sends a task to the main queue every 5 ms, from a separate thread, and records its delay.
final class Heartbeat: Sendable {
    struct Beats {
        let seconds: Double
        /// The delays in milliseconds.
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

    /// The recorded delays, once the last task has run.
    func stop() async -> Beats {
        let seconds = began.duration(to: .now) / .seconds(1)
        state.withLock { $0.isOver = true }
        await withCheckedContinuation { answered in DispatchQueue.main.async { answered.resume() } }
        return Beats(seconds: seconds, waits: state.withLock { $0.waits })
    }
}
