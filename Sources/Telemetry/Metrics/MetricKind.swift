/// A metric's kind, in the exposition format's own words.
package enum MetricKind: String, Sendable {
    /// A number that only grows while the process lives.
    case counter
    /// A number that goes up and down.
    case gauge
    /// The number of observations up to each of a list of bounds, with count and sum.
    ///
    /// The bounds are fixed.
    case histogram
}
