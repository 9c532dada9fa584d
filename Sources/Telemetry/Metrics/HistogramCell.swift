import CoreMetrics
import Synchronization

/// The buckets behind one histogram series.
///
/// A lock, held for one addition, rather than an atomic per bucket: a scrape then sees buckets, count and sum of
/// the same moment.
final class HistogramCell: MetricCell, RecorderHandler, TimerHandler {
    static let kind = MetricKind.histogram

    private struct Tally {
        var counts: [UInt64]
        var sum = 0.0
    }

    /// Upper bounds, inclusive and ascending; the last bucket has no bound.
    private let bounds: [Double]
    private let tally: Mutex<Tally>

    init(bounds: [Double]) {
        self.bounds = bounds
        self.tally = Mutex(Tally(counts: Array(repeating: 0, count: bounds.count + 1)))
    }

    func record(_ value: Int64) { record(Double(value)) }

    /// Records a value; not-a-number is ignored.
    ///
    /// It would make the sum useless for the rest of the process's life.
    func record(_ value: Double) {
        guard !value.isNaN else { return }
        let bucket = bucket(of: value)
        tally.withLock {
            $0.counts[bucket] += 1
            $0.sum += value
        }
    }

    /// Timers are exposed in seconds, the base unit.
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

    /// The first bucket whose bound is not less than the value.
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
