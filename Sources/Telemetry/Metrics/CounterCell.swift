import CoreMetrics
import Synchronization

/// The number behind one counter series. Lock-free.
///
/// Whole and fractional increments are kept apart, so a counter of events stays exact beyond 2^53.
final class CounterCell: MetricCell, CounterHandler, FloatingPointCounterHandler {
    static let kind = MetricKind.counter

    private let whole = Atomic<UInt64>(0)
    private let fractional = Atomic<UInt64>(Double(0).bitPattern)

    init(bounds: [Double] = []) {}

    /// A counter does not go down: anything but a positive amount is ignored.
    func increment(by amount: Int64) {
        guard amount > 0 else { return }
        whole.wrappingAdd(UInt64(amount), ordering: .relaxed)
    }

    /// A counter does not go down: anything but a positive finite amount is ignored.
    func increment(by amount: Double) {
        guard amount > 0, amount.isFinite else { return }
        fractional.update { $0 + amount }
    }

    func reset() { set(0) }

    /// Sets a total that is counted elsewhere (the kernel, a pool).
    ///
    /// It is copied at scrape time.
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
