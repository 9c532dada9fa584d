import Synchronization

/// Limits a repeated action, such as a log entry, to once in an interval.
public final class Throttle: Sendable {
    private let interval: Duration
    private let last: Mutex<ContinuousClock.Instant?>

    /// - Parameter isDueFirst: whether the first action is due at once, or only after the interval.
    public init(_ interval: Duration, isDueFirst: Bool = false) {
        self.interval = interval
        last = Mutex(isDueFirst ? nil : .now)
    }

    /// Whether the action is due; then it is not for the next interval.
    public func isDue() -> Bool {
        last.withLock { last in
            let now = ContinuousClock.now
            if let last, now - last < interval { return false }
            last = now
            return true
        }
    }
}
