import Synchronization

/// Counts down from a number of tasks.
final class Countdown: Sendable {
    private let remaining: Mutex<Int>
    var isOver: Bool { remaining.withLock { $0 <= 0 } }

    init(_ count: Int) {
        remaining = Mutex(count)
    }

    func finishOne() { remaining.withLock { $0 -= 1 } }
}
