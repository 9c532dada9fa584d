import Logging
import Metrics

package enum StoreMetrics {
    /// Sealed values that could not be opened when their rows were read.
    package static let unreadableValues = "sluice_unreadable_values_total"
}
