/// A metric's kind, in the exposition format's own words.
package enum MetricKind: String, Sendable {
    /// A number that only grows while the process lives.
    case counter
    /// A number that goes up and down.
    case gauge
    /// The number of observations at or under each of a fixed list of bounds, with their count and sum.
    case histogram
}
