/// A gateway's traffic in the last hour and the last day, and its present rates.
///
/// The history uses about 50 KB of memory. The caller supplies the time and the totals.
public struct TrafficHistory: Sendable {
    /// The time over which the present rates are averaged, in seconds.
    static let window: Double = 10

    /// The last hour, with a point for each period of 15 seconds.
    public private(set) var hour = TrafficSeries(step: 15, capacity: 240)
    /// The last day, with a point for each period of 5 minutes.
    public private(set) var day = TrafficSeries(step: 300, capacity: 288)
    /// The recent totals, from which ``rates`` are computed.
    private var recent: [(at: Timestamp, totals: TrafficTotals)] = []

    public init() {}

    /// Adds the totals at a moment. The caller does this about once a second.
    ///
    /// - Parameter oldest: the time that the oldest mutation has waited, in seconds; nil if this time is not known.
    public mutating func record(_ totals: TrafficTotals, oldest: Double?, at now: Timestamp) {
        // after the clock was set back, the measurement of the rates starts again
        if let last = recent.last, now <= last.at { recent = [] }
        recent.append((now, totals))
        recent.removeAll { TrafficSeries.seconds(from: $0.at, to: now) > Self.window }
        hour.record(totals, oldest: oldest, at: now)
        day.record(totals, oldest: oldest, at: now)
    }

    /// The rates per second, averaged over the last 10 seconds.
    ///
    /// The rates are 0 until totals of two moments were recorded.
    public var rates: TrafficTotals {
        guard let first = recent.first, let last = recent.last, last.at > first.at else { return TrafficTotals() }
        return last.totals.rates(since: first.totals, seconds: TrafficSeries.seconds(from: first.at, to: last.at))
    }
}

/// The recent traffic, as points at equal intervals.
public struct TrafficSeries: Sendable {
    public struct Point: Sendable, Hashable {
        /// The rates per second.
        public var rates: TrafficTotals
        /// The age of the oldest waiting mutation, in seconds; nil if the age was not known.
        public var oldestWaitingSeconds: Double?
        /// The totals at the beginning of the point's period.
        fileprivate var start: TrafficTotals
    }

    /// The time from one point to the next, in seconds.
    public let step: Int
    /// The maximum number of points in memory.
    public let capacity: Int
    /// The points, oldest first.
    public private(set) var points: [Point] = []
    /// The end of the last point's period; nil before the first point.
    public private(set) var end: Timestamp?
    private var begun: (at: Timestamp, totals: TrafficTotals)?
    private var last = TrafficTotals()

    init(step: Int, capacity: Int) { (self.step, self.capacity) = (step, capacity) }

    fileprivate mutating func record(_ totals: TrafficTotals, oldest: Double?, at now: Timestamp) {
        last = totals
        guard let begun, now > begun.at else {
            begun = (now, totals)
            return
        }
        let elapsed = Self.seconds(from: begun.at, to: now)
        guard elapsed >= Double(step) else { return }
        // the series starts again if the gateway was suspended, because there are no data for this time
        if elapsed >= Double(2 * step) { points = [] }
        let rates = totals.rates(since: begun.totals, seconds: elapsed)
        points.append(Point(rates: rates, oldestWaitingSeconds: oldest, start: begun.totals))
        if points.count > capacity { points.removeFirst(points.count - capacity) }
        end = now
        self.begun = (now, totals)
    }

    /// The start of the first point's period; nil if there are no points.
    public var beginning: Timestamp? {
        points.isEmpty ? nil : end?.adding(seconds: -Double(points.count * step))
    }

    /// The amount of work since ``since``, including the work after the last point.
    public var amounts: TrafficTotals {
        guard let begun else { return TrafficTotals() }
        return last.rates(since: points.first?.start ?? begun.totals, seconds: 1)
    }

    /// The time from which ``amounts`` is counted; nil before the first totals were recorded.
    public var since: Timestamp? { beginning ?? begun?.at }

    fileprivate static func seconds(from earlier: Timestamp, to later: Timestamp) -> Double {
        Double(later.microseconds - earlier.microseconds) / 1_000_000
    }
}

/// The amount of work of a gateway since its start.
///
/// These are the values of the gateway's counter metrics at a moment.
public struct TrafficTotals: Sendable, Hashable {
    /// The number of accepted pushes.
    public var pushes = 0.0
    /// The number of accepted mutations.
    public var accepted = 0.0
    /// The number of mutations that took effect in the built-in store or at an upstream.
    public var applied = 0.0
    /// The number of mutations that failed.
    public var failed = 0.0

    public init() {}

    /// The rates per second since earlier totals. No rate is negative, because counters never decrease.
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
