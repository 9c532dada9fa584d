/// The tokens taken from a quota that are not refilled yet.
///
/// In whole numbers, so that rounding never loses or makes a token, however often the bucket is asked.
public struct TokenBucket: Sendable, Hashable {
    /// The amount missing until the bucket is full, in parts.
    ///
    /// A token has as many parts as its window has milliseconds, so that `limit` parts come back in each millisecond.
    public private(set) var missing: Int64
    public private(set) var asOf: Timestamp

    /// How far the clocks of gateways may be apart, in microseconds. A bucket from further in the future was written
    /// under a wrong clock, and counts as of now, so that no client is locked out until that time comes.
    static let skew: Int64 = 60_000_000

    public init(missing: Int64, asOf: Timestamp) {
        self.missing = max(0, missing)
        self.asOf = asOf
    }

    public init(fullAt now: Timestamp) {
        self.init(missing: 0, asOf: now)
    }

    /// Takes all or nothing.
    ///
    /// More than the whole quota fits once, when nothing is missing, because a request in one piece must be possible at
    /// some time. The bucket is then in debt, so that in the long run the rate is kept.
    ///
    /// - Returns: whether it was taken; if not, the milliseconds until exactly that number fits.
    public mutating func take(_ count: Int, of quota: Quota, at now: Timestamp) -> Taking {
        refill(quota, at: now)
        let parts = Int64(count) * quota.kind.window
        let room = max(0, Self.capacity(of: quota) - parts)
        guard missing > room else {
            missing += parts
            return .taken
        }
        return .fits(after: Self.milliseconds(for: missing - room, quota))
    }

    /// The result of ``take(_:of:at:)``.
    public enum Taking: Sendable, Hashable {
        case taken
        /// Milliseconds, 1 or more.
        case fits(after: Int64)
    }

    /// Takes as many tokens as are left.
    ///
    /// - Returns: how many, `wanted` at most.
    public mutating func take(upTo wanted: Int64, of quota: Quota, at now: Timestamp) -> Int64 {
        refill(quota, at: now)
        let count = max(0, min(wanted, left(of: quota)))
        missing += count * quota.kind.window
        return count
    }

    /// How many are left, as of ``asOf``.
    public func left(of quota: Quota) -> Int64 {
        max(0, (Self.capacity(of: quota) - missing) / quota.kind.window)
    }

    /// Milliseconds until one is left, as of ``asOf``.
    public func millisecondsToNext(of quota: Quota) -> Int64 {
        Self.milliseconds(for: missing - (Self.capacity(of: quota) - quota.kind.window), quota)
    }

    public func standing(of quota: Quota, at now: Timestamp) -> QuotaStatus {
        var bucket = self
        bucket.refill(quota, at: now)
        let seconds = (Self.milliseconds(for: bucket.missing, quota) + 999) / 1_000
        return QuotaStatus(quota: quota, left: bucket.left(of: quota), seconds: seconds)
    }

    private mutating func refill(_ quota: Quota, at now: Timestamp) {
        if asOf.microseconds - now.microseconds > Self.skew { asOf = now }
        // the use under a higher limit: no client pays for that longer than for its largest debt
        missing = min(missing, Self.capacity(of: quota) + quota.kind.overdraft * quota.kind.window)
        // less than a millisecond is carried over to the next time
        let elapsed = (now.microseconds - asOf.microseconds) / 1_000
        guard elapsed > 0 else { return }
        let (parts, isBeyond) = elapsed.multipliedReportingOverflow(by: quota.limit)
        if isBeyond || parts >= missing {
            self = TokenBucket(fullAt: now)
        } else {
            missing -= parts
            asOf = Timestamp(microseconds: asOf.microseconds + elapsed * 1_000)
        }
    }

    private static func capacity(of quota: Quota) -> Int64 { quota.limit * quota.kind.window }

    private static func milliseconds(for parts: Int64, _ quota: Quota) -> Int64 {
        parts <= 0 ? 0 : (parts - 1) / quota.limit + 1
    }
}
