import Logging
import Metrics

/// Names of what the store counts.
package enum StoreMetrics {
    /// Sealed values that stayed closed when their rows were read.
    package static let unreadableValues = "sluice_unreadable_values_total"
}
