package import SyncModel

/// Decides whether a trace is recorded, by the samplers of OpenTelemetry.
///
/// The decision by ratio depends on the trace id alone. So gateways, and other programs that use the same rule, record
/// the same traces.
package struct TraceSampler: Sendable, Equatable {
    /// The random part of a trace id (W3C Trace Context, level 2).
    private static let randomBits = 56
    private static let mask: UInt64 = 1 << randomBits - 1

    /// Whether a span follows the decision of its parent, if it has one.
    private let followsParents: Bool
    /// The smallest random part of a trace id that is recorded. Above ``mask``, no trace is.
    private let threshold: UInt64

    /// - Parameters:
    ///   - name: a value of `OTEL_TRACES_SAMPLER`.
    ///   - ratio: the share of traces that samplers by ratio record, 0 to 1.
    package init?(_ name: String, ratio: Double) {
        let share: Double
        switch name {
        case "always_on", "parentbased_always_on": share = 1
        case "always_off", "parentbased_always_off": share = 0
        case "traceidratio", "parentbased_traceidratio": share = min(1, max(0, ratio))
        default: return nil
        }
        followsParents = name.hasPrefix("parentbased_")
        threshold = UInt64(((1 - share) * Double(Self.mask + 1)).rounded())
    }

    /// Whether a span is recorded.
    package func records(_ traceID: UInt128, under parent: TraceContext?) -> Bool {
        if followsParents, let parent { return parent.isSampled }
        return UInt64(truncatingIfNeeded: traceID) & Self.mask >= threshold
    }
}
