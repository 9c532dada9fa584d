public import FoundationEssentials

/// Computes when a failed attempt is retried.
///
/// See product rule 11 and specification 001 (docs/spec), `exponential_backoff_on_failure`.
public struct RetryPolicy: Sendable, Hashable {
    /// The base of the pause, in seconds (`SLUICE_RETRY_BASE_SECONDS`). Each attempt doubles the pause.
    public var base: Double
    /// The longest pause before jitter, in seconds (`SLUICE_RETRY_CAP_SECONDS`).
    public var cap: Double
    /// The longest pause before jitter, in seconds, after an answer that the operator's configuration may have caused.
    ///
    /// After the operator has fixed the configuration, no lane waits longer than this pause.
    public static let longestHold: Double = 300
    /// The maximum number of consecutive 409s that are retried because the upstream may still process an earlier
    /// attempt.
    public static let conflictRetries: Int16 = 2

    public init(base: Double = 2, cap: Double = 1_800) {
        self.base = base
        self.cap = cap
    }

    /// The time of the next attempt.
    ///
    /// - Parameters:
    ///   - attempts: the number of requests sent, including the request that just failed. At least 1.
    ///   - notBefore: the earliest time that the upstream allows (`Retry-After`).
    ///   - jitter: a random number from 0 to 1. The jitter adds up to a fifth of the pause.
    public func nextTry(
        after attempts: Int16,
        now: Timestamp,
        notBefore: Timestamp? = nil,
        jitter: Double
    ) -> Timestamp {
        // from 62 attempts on, the cap determines the pause in any case
        let doubled = base * Double(UInt64(1) << UInt64(min(max(attempts, 0), 62)))
        let pause = min(cap, doubled) * (1 + 0.2 * min(max(jitter, 0), 1))
        let due = now.adding(seconds: pause)
        return notBefore.map { max($0, due) } ?? due
    }

    /// The time of the next attempt after an answer that the operator's configuration may have caused.
    ///
    /// The pause grows with the number of consecutive answers of this kind, not with the number of attempts.
    func nextTry(after hold: AuthBackoff, now: Timestamp, notBefore: Timestamp?, jitter: Double) -> Timestamp {
        RetryPolicy(base: base, cap: min(cap, Self.longestHold))
            .nextTry(after: hold.count, now: now, notBefore: notBefore, jitter: jitter)
    }
}

/// The number of a mutation's consecutive answers with an unclear cause.
///
/// The cause of a 401, a 407 or a redirect may be the operator's configuration or the mutation (product rule 11). The
/// worker sends the request again after a pause, and the request does not count as an attempt.
public struct AuthBackoff: Sendable, Hashable {
    /// The number of consecutive answers of this kind to this revision; 1 or more.
    public var count: Int16
    /// When the first of these answers arrived.
    ///
    /// If the upstream accepts another request after this time, the mutation itself is the cause.
    public var since: Timestamp

    public init(count: Int16, since: Timestamp) {
        self.count = count
        self.since = since
    }

    /// The count after one more answer with an unclear cause.
    static func next(after hold: AuthBackoff?, now: Timestamp) -> AuthBackoff {
        guard let hold else { return AuthBackoff(count: 1, since: now) }
        return AuthBackoff(count: hold.count == .max ? .max : hold.count + 1, since: hold.since)
    }
}

/// The state of an open or half-open circuit breaker of an upstream, for operators.
public struct CircuitReport: Sendable, Hashable {
    public var organization: UUID
    /// Whether a request that probes the upstream is in progress.
    public var isHalfOpen: Bool
    /// When the circuit opened.
    public var since: Timestamp
    /// The number of requests that have failed since the last success, including the first failure.
    public var failures: Int
    /// The result of the last request.
    public var lastError: String
    /// When the next probe may be sent, or when the gateway stops waiting for the probe in progress.
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
