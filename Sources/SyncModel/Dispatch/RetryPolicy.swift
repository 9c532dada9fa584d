/// When a failed attempt is tried again.
///
/// Product rule 11; seed 001, `exponential_backoff_on_failure`.
public struct RetryPolicy: Sendable, Hashable {
    /// `SLUICE_RETRY_BASE_SECONDS`: doubled with every attempt, in seconds.
    public var base: Double
    /// `SLUICE_RETRY_CAP_SECONDS`: the longest pause before jitter, in seconds.
    public var cap: Double
    /// The longest hold, in seconds before jitter, if the operator may be the cause.
    ///
    /// After the operator has fixed the configuration, no lane waits for longer than this.
    public static let longestHold: Double = 300
    /// Consecutive 409s that are taken for an echo of an earlier attempt.
    public static let conflictRetries: Int16 = 2

    public init(base: Double = 2, cap: Double = 1_800) {
        self.base = base
        self.cap = cap
    }

    /// When the next try is due.
    ///
    /// - Parameters:
    ///   - attempts: requests sent, the one that just failed included; 1 or more.
    ///   - notBefore: the time that the upstream asked for (`Retry-After`).
    ///   - jitter: 0 to 1; adds up to a fifth of the pause.
    public func nextTry(
        after attempts: Int16,
        now: Timestamp,
        notBefore: Timestamp? = nil,
        jitter: Double
    ) -> Timestamp {
        // beyond 2^62 only the cap counts
        let doubled = base * Double(UInt64(1) << UInt64(min(max(attempts, 0), 62)))
        let pause = min(cap, doubled) * (1 + 0.2 * min(max(jitter, 0), 1))
        let due = now.adding(seconds: pause)
        return notBefore.map { max($0, due) } ?? due
    }

    /// When to retry a mutation if the operator may be the cause of its answers.
    ///
    /// As above, but by the number of such answers instead of attempts.
    func nextTry(after hold: AuthBackoff, now: Timestamp, notBefore: Timestamp?, jitter: Double) -> Timestamp {
        RetryPolicy(base: base, cap: min(cap, Self.longestHold))
            .nextTry(after: hold.count, now: now, notBefore: notBefore, jitter: jitter)
    }
}
