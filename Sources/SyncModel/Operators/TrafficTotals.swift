/// How much a gateway has done since it was started.
///
/// The counters that its metrics show, at a moment.
public struct TrafficTotals: Sendable, Hashable {
    /// Pushes that were taken.
    public var pushes = 0.0
    /// Mutations that were taken.
    public var accepted = 0.0
    /// Mutations that took effect: in the built-in store, or at an upstream.
    public var applied = 0.0
    /// Mutations that were found failed.
    public var failed = 0.0

    public init() {}

    /// The rates a second since earlier totals. A counter never decreases.
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
