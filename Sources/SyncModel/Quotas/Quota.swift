/// A number of tokens for each window of time, from a bucket that is refilled evenly.
///
/// Unused tokens accumulate up to the number of tokens for one window.
public struct Quota: Sendable, Hashable {
    /// The unit that is counted, and the length of the window.
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        /// Requests of an organization per second.
        case requests
        /// New mutations of a user per day.
        case mutations

        /// The window, in milliseconds.
        var window: Int64 {
            switch self {
            case .requests: 1_000
            case .mutations: 86_400_000
            }
        }

        /// The maximum debt, in tokens (``TokenBucket/take(_:of:at:)``).
        ///
        /// For mutations, this is the size of the largest push that `SLUICE_MAX_MUTATIONS` can allow. A request takes
        /// only one token, and never causes a debt.
        var overdraft: Int64 {
            switch self {
            case .requests: 0
            case .mutations: 10_000
            }
        }

        /// The window, in seconds.
        public var seconds: Int64 { window / 1_000 }
    }

    public let kind: Kind
    /// The number of tokens for a window, from 1 to 1,000,000,000. All of these tokens may be taken at the same time.
    public let limit: Int64

    public init(_ kind: Kind, limit: Int64) {
        self.kind = kind
        self.limit = limit
    }
}

/// The present remainder of a quota, for the answer to a client.
public struct QuotaStatus: Sendable, Hashable {
    public let quota: Quota
    /// The number of tokens that may be taken now.
    public let left: Int64
    /// The number of seconds until the whole quota is available again, rounded up.
    public let seconds: Int64

    public init(quota: Quota, left: Int64, seconds: Int64) {
        self.quota = quota
        self.left = left
        self.seconds = seconds
    }
}

/// Applies a user's quota of new mutations in the transaction that accepts a push.
///
/// See product rule 16. Entries that get a record use the quota: accepted entries, and refused entries that are stored.
/// Repeats use no quota, because a client that was refused or lost an answer must always be able to get the results of
/// its earlier entries.
enum MutationAllowance {
    /// Deducts a push's new entries from the remaining quota.
    ///
    /// - Returns: the usage of the quota after the push, and the remainder; nil if there is no quota.
    /// - Throws: `rate_limited` for the whole push, with the time after which the same push is within the quota.
    static func spend(
        _ count: Int,
        _ used: TokenBucket?,
        _ context: PushPlanner.Context
    ) throws(PushRefusal) -> (bucket: TokenBucket, quotaStatus: QuotaStatus)? {
        guard let quota = context.organization.settings.mutationQuota else { return nil }
        var bucket = used ?? TokenBucket(fullAt: context.now)
        guard count > 0 else { return (bucket, bucket.status(of: quota, at: context.now)) }
        switch bucket.take(count, of: quota, at: context.now) {
        case .taken:
            return (bucket, bucket.status(of: quota, at: context.now))
        case .fits(let milliseconds):
            let status = bucket.status(of: quota, at: context.now)
            throw .problem(refusal(count, status, milliseconds))
        }
    }

    private static func refusal(_ count: Int, _ status: QuotaStatus, _ milliseconds: Int64) -> Problem {
        let limit = status.quota.limit
        let much = count == 1 ? "one new mutation" : "\(count) new mutations"
        let most = "a user may push \(limit) per day, and \(status.left) are left"
        let hint =
            Int64(count) > limit
            ? "; a push of more mutations than the daily quota is accepted only while the quota is unused" : ""
        var problem = Problem(.rateLimited, "the push has \(much), \(most); no mutation was accepted" + hint)
        problem.retryAfter = Int(max(1, (milliseconds + 999) / 1_000))
        problem.quotaStatus = status
        return problem
    }
}
