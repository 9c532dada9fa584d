/// A gateway's traffic in the last hour, and its present rates.
///
/// It has one point for each fifteen seconds, and uses a few kilobytes of memory. The caller supplies the clock and the
/// totals.
public struct TrafficHistory: Sendable {
    /// The time from one point to the next, in seconds.
    public static let step = 15
    /// The number of points in memory, which cover one hour.
    public static let capacity = 240
    /// The seconds over which the present rates are averaged.
    static let window: Double = 10

    public struct Point: Sendable, Hashable {
        /// The rates per second.
        public var rates: TrafficTotals
        /// The age of the oldest waiting mutation; nil if it is not known.
        public var oldestWaitingSeconds: Double?
    }

    /// The points, oldest first.
    public private(set) var points: [Point] = []
    /// The end of the last point's time; nil before the first point.
    public private(set) var end: Timestamp?
    private var begun: (at: Timestamp, totals: TrafficTotals)?
    /// The totals of the last seconds.
    private var recent: [(at: Timestamp, totals: TrafficTotals)] = []

    public init() {}

    /// Adds the totals of a moment. Called about once a second.
    ///
    /// - Parameter oldest: how long the oldest mutation has waited, in seconds; nil if it is not known.
    public mutating func record(_ totals: TrafficTotals, oldest: Double?, at now: Timestamp) {
        // after the clock was set back, the history starts again
        if let last = recent.last, now <= last.at { recent = [] }
        recent.append((now, totals))
        recent.removeAll { Self.seconds(from: $0.at, to: now) > Self.window }
        guard let begun, now > begun.at else {
            begun = (now, totals)
            return
        }
        let elapsed = Self.seconds(from: begun.at, to: now)
        guard elapsed >= Double(Self.step) else { return }
        // the time in which the gateway was suspended has no data
        if elapsed >= Double(2 * Self.step) { points = [] }
        let point = Point(rates: totals.rates(since: begun.totals, seconds: elapsed), oldestWaitingSeconds: oldest)
        points.append(point)
        if points.count > Self.capacity { points.removeFirst(points.count - Self.capacity) }
        end = now
        self.begun = (now, totals)
    }

    /// The rates per second, averaged over the last ten seconds.
    ///
    /// Zero until there are two moments to compare.
    public var rates: TrafficTotals {
        guard let first = recent.first, let last = recent.last, last.at > first.at else { return TrafficTotals() }
        return last.totals.rates(since: first.totals, seconds: Self.seconds(from: first.at, to: last.at))
    }

    /// The start of the first point's time; nil without points.
    public var beginning: Timestamp? {
        points.isEmpty ? nil : end?.adding(seconds: -Double(points.count * Self.step))
    }

    private static func seconds(from earlier: Timestamp, to later: Timestamp) -> Double {
        Double(later.microseconds - earlier.microseconds) / 1_000_000
    }
}

/// The amount of work that a gateway has done since its start.
///
/// These are the counters of its metrics at a moment.
public struct TrafficTotals: Sendable, Hashable {
    /// Pushes that were accepted.
    public var pushes = 0.0
    /// Mutations that were accepted.
    public var accepted = 0.0
    /// Mutations that took effect: in the built-in store, or at an upstream.
    public var applied = 0.0
    /// Mutations that failed.
    public var failed = 0.0

    public init() {}

    /// The rates per second since earlier totals. A counter never decreases.
    func rates(since earlier: TrafficTotals, seconds: Double) -> TrafficTotals {
        func rate(_ path: KeyPath<TrafficTotals, Double>) -> Double {
            max(0, self[keyPath: path] - earlier[keyPath: path]) / seconds
        }
        var rates = TrafficTotals()
        rates.pushes = rate(\.pushes)
        rates.accepted = rate(\.accepted)
        rates.applied = rate(\.applied)
        rates.failed = rate(\.failed)
        return rates
    }
}
