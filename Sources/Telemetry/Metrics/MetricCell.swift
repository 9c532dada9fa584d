import CoreMetrics
import Synchronization

/// The value of a series. All handlers with the same name and labels share one cell.
protocol MetricCell: AnyObject, Sendable {
    static var kind: MetricKind { get }

    /// - Parameter bounds: the upper bounds of a histogram's buckets; empty for other kinds.
    init(bounds: [Double])
    func append(_ name: String, labels: LabelSet, to bytes: inout [UInt8])
}

/// The value of one counter series. The cell uses no lock.
///
/// Whole and fractional increments are stored separately, so that a counter of events stays exact beyond 2^53.
final class CounterCell: MetricCell, CounterHandler, FloatingPointCounterHandler {
    static let kind = MetricKind.counter

    private let whole = Atomic<UInt64>(0)
    private let fractional = Atomic<UInt64>(Double(0).bitPattern)

    init(bounds: [Double] = []) {}

    /// Adds a positive amount. Other amounts are ignored, because a counter does not decrease.
    func increment(by amount: Int64) {
        guard amount > 0 else { return }
        whole.wrappingAdd(UInt64(amount), ordering: .relaxed)
    }

    /// Adds a positive finite amount. Other amounts are ignored, because a counter does not decrease.
    func increment(by amount: Double) {
        guard amount > 0, amount.isFinite else { return }
        fractional.update { $0 + amount }
    }

    func reset() { set(0) }

    /// Sets the total, which is counted elsewhere, such as by the kernel or a pool.
    ///
    /// Collectors call this method at each scrape.
    func set(_ total: Double) {
        whole.store(0, ordering: .relaxed)
        fractional.store(total.bitPattern, ordering: .relaxed)
    }

    var total: Double {
        Double(whole.load(ordering: .relaxed)) + Double(bitPattern: fractional.load(ordering: .relaxed))
    }

    func append(_ name: String, labels: LabelSet, to bytes: inout [UInt8]) {
        let fraction = Double(bitPattern: fractional.load(ordering: .relaxed))
        let count = whole.load(ordering: .relaxed)
        let text = fraction == 0 ? String(count) : PrometheusText.number(Double(count) + fraction)
        PrometheusText.appendSample(name, labels: labels, value: text, to: &bytes)
    }
}

/// The value of one gauge series. The cell uses no lock.
final class GaugeCell: MetricCell, MeterHandler, RecorderHandler {
    static let kind = MetricKind.gauge

    private let bits = Atomic<UInt64>(Double(0).bitPattern)

    init(bounds: [Double] = []) {}

    func set(_ value: Int64) { set(Double(value)) }
    func set(_ value: Double) { bits.store(value.bitPattern, ordering: .relaxed) }
    func increment(by amount: Double) { bits.update { $0 + amount } }
    func decrement(by amount: Double) { bits.update { $0 - amount } }

    // in swift-metrics, a `Gauge` is a recorder that keeps only the last value
    func record(_ value: Int64) { set(value) }
    func record(_ value: Double) { set(value) }

    func append(_ name: String, labels: LabelSet, to bytes: inout [UInt8]) {
        let value = PrometheusText.number(Double(bitPattern: bits.load(ordering: .relaxed)))
        PrometheusText.appendSample(name, labels: labels, value: value, to: &bytes)
    }
}

/// The buckets of one histogram series.
///
/// The cell holds a lock for each addition and each scrape, so that a scrape reads buckets, count and sum as of the
/// same time. Atomics would not ensure this.
final class HistogramCell: MetricCell, RecorderHandler, TimerHandler {
    static let kind = MetricKind.histogram

    private struct Tally {
        var counts: [UInt64]
        var sum = 0.0
    }

    /// The upper bounds, inclusive and ascending. The last bucket has no upper bound.
    private let bounds: [Double]
    private let tally: Mutex<Tally>

    init(bounds: [Double]) {
        self.bounds = bounds
        self.tally = Mutex(Tally(counts: Array(repeating: 0, count: bounds.count + 1)))
    }

    func record(_ value: Int64) { record(Double(value)) }

    /// Records a value.
    ///
    /// NaN is ignored, because it would make the sum useless until the process ends.
    func record(_ value: Double) {
        guard !value.isNaN else { return }
        let bucket = bucket(of: value)
        tally.withLock {
            $0.counts[bucket] += 1
            $0.sum += value
        }
    }

    /// Records a timer's duration. Timers are exposed in seconds.
    func recordNanoseconds(_ duration: Int64) { record(Double(duration) / 1e9) }

    func append(_ name: String, labels: LabelSet, to bytes: inout [UInt8]) {
        let (counts, sum) = tally.withLock { ($0.counts, $0.sum) }
        var total: UInt64 = 0
        for (index, count) in counts.enumerated() {
            total += count
            PrometheusText.appendSample(
                name,
                suffix: "_bucket",
                labels: labels,
                bound: index < bounds.count ? PrometheusText.number(bounds[index]) : "+Inf",
                value: String(total),
                to: &bytes
            )
        }
        let sumText = PrometheusText.number(sum)
        PrometheusText.appendSample(name, suffix: "_sum", labels: labels, value: sumText, to: &bytes)
        PrometheusText.appendSample(name, suffix: "_count", labels: labels, value: String(total), to: &bytes)
    }

    /// Returns the first bucket whose bound is not less than the value.
    private func bucket(of value: Double) -> Int {
        var low = 0
        var high = bounds.count
        while low < high {
            let middle = (low + high) / 2
            if bounds[middle] < value { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

/// The bounds of histograms. Each list is short, because a histogram needs a series for each bound.
package enum MetricBuckets {
    /// Bounds in seconds, for the time to wait for a network or a database: 1 ms to 10 s.
    package static let seconds: [Double] = [
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
    ]

    /// Bounds in seconds, for the time to wait for a network that may be unavailable: 10 ms to a day.
    package static let upToADay: [Double] = [
        0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3_600, 14_400, 43_200, 86_400,
    ]

    /// Bounds for the sizes of groups: 1 to 2,000.
    package static let counts: [Double] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000]

    /// Bounds for sizes in bytes: 256 B to 4 MiB.
    package static let bytes: [Double] = [256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304]
}

extension Atomic where Value == UInt64 {
    /// Replaces the floating-point number in this atomic, which contains the number's bits.
    ///
    /// The new number is the result of `change`. The exchange compares bits instead of numbers, because a comparison
    /// with NaN would fail forever.
    func update(_ change: (Double) -> Double) {
        var current = load(ordering: .relaxed)
        while true {
            let wanted = change(Double(bitPattern: current)).bitPattern
            let (exchanged, original) = weakCompareExchange(expected: current, desired: wanted, ordering: .relaxed)
            if exchanged { return }
            current = original
        }
    }
}
