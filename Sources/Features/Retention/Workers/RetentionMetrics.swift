import Metrics
import SyncModel

/// Retention's metrics, described where they are wired.
package struct RetentionMetrics: Sendable {
    /// Rows changed or deleted, by `what`.
    package static let rows = "sluice_retention_rows_total"
    /// Duration of steps.
    package static let stepDuration = "sluice_retention_step_duration_seconds"

    private let rowCounters: [RetentionKind: Counter]
    private let duration = Timer(label: Self.stepDuration)

    init() {
        let counters = RetentionKind.allCases.map { kind in
            (kind, Counter(label: Self.rows, dimensions: [("what", kind.rawValue)]))
        }
        rowCounters = Dictionary(uniqueKeysWithValues: counters)
    }

    func step(_ kind: RetentionKind, _ step: RetentionStep, took elapsed: Duration) {
        rowCounters[kind]?.increment(by: step.changed)
        duration.recordNanoseconds(elapsed.nanoseconds)
    }
}
