import CoreMetrics
import Synchronization

/// The number behind one gauge series. Lock-free; shared by all who ask for the same name and labels.
final class GaugeCell: MeterHandler, RecorderHandler {
    private let bits = Atomic<UInt64>(Double(0).bitPattern)

    func set(_ value: Int64) {
        set(Double(value))
    }

    func set(_ value: Double) {
        bits.store(value.bitPattern, ordering: .relaxed)
    }

    func increment(by amount: Double) {
        bits.update { $0 + amount }
    }

    func decrement(by amount: Double) {
        bits.update { $0 - amount }
    }

    /// swift-metrics' `Gauge` is a recorder that keeps its last value only.
    func record(_ value: Int64) {
        set(value)
    }

    func record(_ value: Double) {
        set(value)
    }

    /// The value as the exposition format writes it.
    var text: String {
        PrometheusText.number(Double(bitPattern: bits.load(ordering: .relaxed)))
    }
}
