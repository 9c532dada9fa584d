import Synchronization

/// Says when something that could be said again and again is due: at most once in a time.
public final class Throttle: Sendable {
    private let interval: Duration
    private let last: Mutex<ContinuousClock.Instant?>

    /// - Parameter isDueFirst: whether the first time is due at once; else when the interval is over.
    public init(_ interval: Duration, isDueFirst: Bool = false) {
        self.interval = interval
        last = Mutex(isDueFirst ? nil : .now)
    }

    /// Whether it is due; then it is not for the next interval.
    public func isDue() -> Bool {
        last.withLock { last in
            let now = ContinuousClock.now
            if let last, now - last < interval { return false }
            last = now
            return true
        }
    }
}
