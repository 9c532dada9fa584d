/// A user's quota of new mutations, in the transaction that accepts a push.
///
/// Product rule 16. Entries that leave a record count: accepted ones, and refused ones that are stored. Replays are
/// free, so that a worker that was refused, or lost an answer, can always get the results of its earlier entries.
enum MutationAllowance {
    /// Deducts a push's new entries from the remaining quota.
    ///
    /// - Returns: the usage afterwards, and the rest; nil where there is no quota.
    /// - Throws: `rate_limited` for the whole push, with the time after which the same push fits.
    static func spend(
        _ count: Int,
        _ used: TokenBucket?,
        _ context: PushPlanner.Context
    ) throws(PushRefusal) -> (bucket: TokenBucket, standing: QuotaStatus)? {
        guard let quota = context.organization.settings.mutationQuota else { return nil }
        var bucket = used ?? TokenBucket(fullAt: context.now)
        guard count > 0 else { return (bucket, bucket.standing(of: quota, at: context.now)) }
        switch bucket.take(count, of: quota, at: context.now) {
        case .taken:
            return (bucket, bucket.standing(of: quota, at: context.now))
        case .fits(let milliseconds):
            let standing = bucket.standing(of: quota, at: context.now)
            throw .problem(refusal(count, standing, milliseconds))
        }
    }

    private static func refusal(_ count: Int, _ standing: QuotaStatus, _ milliseconds: Int64) -> Problem {
        let limit = standing.quota.limit
        let much = count == 1 ? "one new mutation" : "\(count) new mutations"
        let most = "a user may push \(limit) per day, and \(standing.left) are left"
        let hint =
            Int64(count) > limit
            ? "; because it exceeds the quota of a day, it is only accepted when no part of the quota is in use" : ""
        var problem = Problem(.rateLimited, "the push has \(much), \(most); no mutation was accepted" + hint)
        problem.retryAfter = Int(max(1, (milliseconds + 999) / 1_000))
        problem.standing = standing
        return problem
    }
}
