import SyncModel

/// The rules for fetching a provider's keys, and for waiting for that, without I/O.
///
/// A set is fetched again when it is about to expire, after a failure with growing pauses, and when a token names an
/// unknown key. Any client can write such a token, so that happens once in ``demandPause`` for all callers together,
/// and only so many wait for it.
struct JWKSCacheState: Sendable {
    /// The shortest and the longest use of a set, and the default, in seconds.
    ///
    /// The default applies if its provider does not specify one.
    static let ages: ClosedRange<Double> = 60...3_600
    static let defaultAge: Double = 600
    /// The pause after a failure, doubled with each further one, and its cap.
    ///
    /// Both are in seconds.
    static let failurePauses: ClosedRange<Double> = 2...60
    /// How often unknown keys may cause a fetch, in seconds.
    static let demandPause: Double = 30
    /// Requests that may wait for a fetch.
    static let maximumWaiters = 64
    /// How often a provider that keeps failing is warned of, in seconds.
    static let warningPause: Double = 600

    /// The next step of a request that names an unknown key.
    enum Demand: Equatable {
        /// Wait for the fetch that it causes, or for the one in progress.
        case wait
        /// Refuse the token at once.
        case refuse
    }

    /// The result of a fetch.
    enum Outcome: String, CaseIterable {
        case changed, unchanged, failed
    }

    private(set) var isFetching = false
    /// When a set was last fetched or found unchanged; nil: never.
    private(set) var freshAt: Timestamp?
    private(set) var failures = 0
    private var dueAt: Timestamp?
    private var demandedAt: Timestamp?
    private var warnedAt: Timestamp?
    private var isDemanded = false

    /// A request names an unknown key.
    mutating func demand(at now: Timestamp, waiting: Int) -> Demand {
        if !isFetching, !isDemanded {
            // a time in the future was recorded before the clock was set back
            if let demandedAt, demandedAt <= now, demandedAt.adding(seconds: Self.demandPause) > now { return .refuse }
            demandedAt = now
            isDemanded = true
        }
        return waiting < Self.maximumWaiters ? .wait : .refuse
    }

    /// Whether to fetch now.
    ///
    /// The caller then does so, and reports the end by ``finish(_:maximumAge:at:luck:)``.
    mutating func begin(at now: Timestamp) -> Bool {
        guard !isFetching, isDemanded || isDue(at: now) else { return false }
        isFetching = true
        isDemanded = false
        return true
    }

    /// Records the end of a fetch.
    ///
    /// - Parameters:
    ///   - maximumAge: from the provider, in seconds.
    ///   - luck: 0 to 1, drawn each time, so that replicas do not all fetch at once.
    /// - Returns: whether to warn of a failure.
    mutating func finish(_ outcome: Outcome, maximumAge: Int64?, at now: Timestamp, luck: Double) -> Bool {
        isFetching = false
        guard outcome == .failed else {
            let age = maximumAge.map { Double(min($0, 1_000_000)) } ?? Self.defaultAge
            let bounded = min(max(age, Self.ages.lowerBound), Self.ages.upperBound)
            // earlier, never later
            dueAt = now.adding(seconds: bounded * (1 - 0.2 * luck))
            freshAt = now
            failures = 0
            warnedAt = nil
            return false
        }
        let pause = Self.failurePauses.lowerBound * Double(1 << min(failures, 10))
        dueAt = now.adding(seconds: min(pause, Self.failurePauses.upperBound) * (1 - 0.2 * luck))
        failures += 1
        if let warnedAt, warnedAt <= now, warnedAt.adding(seconds: Self.warningPause) > now { return false }
        warnedAt = now
        return true
    }

    /// Seconds until the next fetch, for `Retry-After`; at least 1.
    func secondsUntilDue(at now: Timestamp) -> Int {
        guard !isFetching, let dueAt, dueAt > now else { return 1 }
        let seconds = (dueAt.microseconds - now.microseconds + 999_999) / 1_000_000
        return Int(min(max(seconds, 1), Int64(Self.failurePauses.upperBound)))
    }

    private func isDue(at now: Timestamp) -> Bool {
        guard let dueAt else { return true }
        // a longer wait than possible means that the clock was set back
        return dueAt <= now || now.adding(seconds: Self.ages.upperBound) < dueAt
    }
}
