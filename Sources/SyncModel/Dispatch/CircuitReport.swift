public import Foundation

/// The state of an upstream's circuit that is not closed, for operators.
public struct CircuitReport: Sendable, Hashable {
    public var organization: UUID
    /// Whether a probe is under way.
    public var isHalfOpen: Bool
    /// When it opened.
    public var since: Timestamp
    /// Requests that have failed since the last success, including the first failure.
    public var failures: Int
    /// The result of the last request.
    public var lastError: String
    /// When the next probe may be sent, or the one in progress is given up.
    public var nextProbeAt: Timestamp

    public init(
        organization: UUID,
        isHalfOpen: Bool,
        since: Timestamp,
        failures: Int,
        lastError: String,
        nextProbeAt: Timestamp
    ) {
        self.organization = organization
        self.isHalfOpen = isHalfOpen
        self.since = since
        self.failures = failures
        self.lastError = lastError
        self.nextProbeAt = nextProbeAt
    }
}
