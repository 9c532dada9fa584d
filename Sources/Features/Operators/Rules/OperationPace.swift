import SyncModel

/// The pace of an operation: never above its limit over its whole run, and without catching up after delays.
package struct OperationPace: Sendable {
    /// The maximum number of mutations that one step reads.
    package static let batch = 50

    private let perSecond: Double

    package init(perSecond: Int) {
        self.perSecond = Double(max(1, perSecond))
    }

    /// Mutations of the next step: what may be settled in a second, or ``batch``.
    package var limit: Int { max(1, min(Int(perSecond), Self.batch)) }

    /// Seconds to pause after a step.
    ///
    /// - Parameters:
    ///   - count: mutations that it settled.
    ///   - seconds: the time that it took.
    package func pause(after count: Int, in seconds: Double) -> Double {
        max(0, Double(count) / perSecond - seconds)
    }
}
