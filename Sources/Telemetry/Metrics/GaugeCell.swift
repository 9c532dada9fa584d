import CoreMetrics
import Synchronization

/// The number behind one gauge series. Lock-free.
final class GaugeCell: MetricCell, MeterHandler, RecorderHandler {
    static let kind = MetricKind.gauge

    private let bits = Atomic<UInt64>(Double(0).bitPattern)

    init(bounds: [Double] = []) {}

    func set(_ value: Int64) { set(Double(value)) }
    func set(_ value: Double) { bits.store(value.bitPattern, ordering: .relaxed) }
    func increment(by amount: Double) { bits.update { $0 + amount } }
    func decrement(by amount: Double) { bits.update { $0 - amount } }

    // swift-metrics' `Gauge` is a recorder that keeps its last value only
    func record(_ value: Int64) { set(value) }
    func record(_ value: Double) { set(value) }

    func append(_ name: String, labels: LabelSet, to bytes: inout [UInt8]) {
        let value = PrometheusText.number(Double(bitPattern: bits.load(ordering: .relaxed)))
        PrometheusText.appendSample(name, labels: labels, value: value, to: &bytes)
    }
}
