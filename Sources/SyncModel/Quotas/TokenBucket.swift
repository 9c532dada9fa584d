/// The tokens that were taken from a quota and are not refilled yet.
///
/// The bucket counts in whole numbers, because rounding must never lose or add a token.
public struct TokenBucket: Sendable, Hashable {
    /// The amount missing until the bucket is full, in parts.
    ///
    /// A token has as many parts as the quota's window has milliseconds. Therefore `limit` parts are refilled in each
    /// millisecond.
    public private(set) var missing: Int64
    public private(set) var asOf: Timestamp

    /// The maximum difference between the clocks of gateways, in microseconds.
    ///
    /// If a bucket's time is later than now by more than this difference, the bucket was written with a wrong clock.
    /// Such a bucket is treated as written now, because a client must not be locked out until that time.
    static let skew: Int64 = 60_000_000

    public init(missing: Int64, asOf: Timestamp) {
        self.missing = max(0, missing)
        self.asOf = asOf
    }

    public init(fullAt now: Timestamp) {
        self.init(missing: 0, asOf: now)
    }

    /// Takes all tokens or none of them.
    ///
    /// From a full bucket, even more tokens than the whole quota can be taken, because a request that cannot be split
    /// must be possible eventually. The bucket is in debt afterwards, which keeps the average rate within the quota.
    ///
    /// - Returns: whether the tokens were taken and, if not, the time until this number of tokens can be taken.
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
        /// The tokens can be taken after this number of milliseconds, which is at least 1.
        case fits(after: Int64)
    }

    /// Takes as many tokens as are left.
    ///
    /// - Returns: the number of tokens that were taken, at most `wanted`.
    public mutating func take(upTo wanted: Int64, of quota: Quota, at now: Timestamp) -> Int64 {
        refill(quota, at: now)
        let count = max(0, min(wanted, left(of: quota)))
        missing += count * quota.kind.window
        return count
    }

    /// The number of tokens left, as of ``asOf``.
    public func left(of quota: Quota) -> Int64 {
        max(0, (Self.capacity(of: quota) - missing) / quota.kind.window)
    }

    /// The number of milliseconds until at least one token is left, as of ``asOf``.
    public func millisecondsToNext(of quota: Quota) -> Int64 {
        Self.milliseconds(for: missing - (Self.capacity(of: quota) - quota.kind.window), quota)
    }

    public func status(of quota: Quota, at now: Timestamp) -> QuotaStatus {
        var bucket = self
        bucket.refill(quota, at: now)
        let seconds = (Self.milliseconds(for: bucket.missing, quota) + 999) / 1_000
        return QuotaStatus(quota: quota, left: bucket.left(of: quota), seconds: seconds)
    }

    private mutating func refill(_ quota: Quota, at now: Timestamp) {
        if asOf.microseconds - now.microseconds > Self.skew { asOf = now }
        // tokens that were taken under a higher limit are capped, because a client should wait at most until the
        // largest possible debt is refilled
        missing = min(missing, Self.capacity(of: quota) + quota.kind.overdraft * quota.kind.window)
        // a fraction of a millisecond is carried over to the next call
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

/// One gateway's share of an organization's bucket.
///
/// The share consists of tokens that the gateway drew in advance. With these tokens the gateway admits requests without
/// reading the bucket. The type does no I/O. The store draws the tokens.
public struct RequestPortion: Sendable {
    /// The answer to a request.
    public enum Answer: Sendable, Hashable {
        case admitted(QuotaStatus)
        case refused(QuotaStatus)
        /// Tokens must be drawn from the bucket first.
        case unknown
    }

    /// The time for which drawn tokens may be used, in microseconds.
    ///
    /// A bucket contains at most the tokens of one second.
    static let lifetime: Int64 = 1_000_000
    /// The minimum time until the next draw if a draw found too few tokens, in milliseconds.
    static let pause: Int64 = 50

    /// The organization's quota, as this gateway last read it.
    public private(set) var quota: Quota
    private var held: Int64 = 0
    private var heldUntil = Timestamp(microseconds: 0)
    /// The time until which the bucket is known to be empty.
    private var emptyUntil = Timestamp(microseconds: 0)
    /// The number of tokens that remained in the bucket, for all gateways, after the last draw.
    private var leftBehind: Int64 = 0

    /// Creates an empty portion.
    public init(_ quota: Quota) {
        self.quota = quota
    }

    /// The maximum number of tokens that a gateway holds, which is the number for a quarter of a second, but at least
    /// 1.
    public var size: Int64 { Swift.max(1, quota.limit / 4) }

    /// Admits one request, if the drawn tokens allow it.
    public mutating func admit(_ quota: Quota, at now: Timestamp) -> Answer {
        if quota != self.quota { change(to: quota) }
        if now > heldUntil { held = 0 }
        if held > 0 {
            held -= 1
            return .admitted(status)
        }
        // if the clock was set back, requests do not wait
        let wait = emptyUntil.microseconds - now.microseconds
        return wait > 0 && wait <= Self.lifetime ? .refused(status) : .unknown
    }

    /// Whether to draw in advance, before any request has to wait.
    ///
    /// True if at least half of the portion is used, and the bucket is not known to be empty.
    public func isLow(at now: Timestamp) -> Bool {
        size > 1 && held <= size / 2 && now >= emptyUntil
    }

    /// The number of tokens to draw.
    ///
    /// This is the missing part of the portion, plus one token for each waiting request.
    public func wanted(waiting: Int) -> Int64 { size - held + Int64(waiting) }

    /// - Parameter bucket: the bucket after the draw.
    public mutating func add(_ granted: Int64, wanted: Int64, from bucket: TokenBucket, at now: Timestamp) {
        held += granted
        heldUntil = Timestamp(microseconds: now.microseconds + Self.lifetime)
        leftBehind = bucket.left(of: quota)
        guard granted < wanted else { return }
        // the wait is limited to the time that `admit` accepts; with a longer wait, `admit` would cause one draw after
        // another
        let wait = Swift.max(Self.pause, bucket.millisecondsToNext(of: quota)) * 1_000
        emptyUntil = Timestamp(microseconds: now.microseconds + Swift.min(wait, Self.lifetime))
    }

    /// Takes back the tokens of requests that were not made, if these tokens can still be used.
    public mutating func release(_ count: Int64, at now: Timestamp) {
        if now <= heldUntil { held += count }
    }

    /// Discards the tokens that exceed the portion. Called after the waiting requests were served.
    public mutating func trim() {
        held = Swift.min(held, size)
    }

    private mutating func change(to quota: Quota) {
        self.quota = quota
        held = Swift.min(held, size)
        leftBehind = Swift.min(leftBehind, quota.limit)
        emptyUntil = Timestamp(microseconds: 0)
    }

    private var status: QuotaStatus {
        QuotaStatus(quota: quota, left: Swift.min(quota.limit, held + leftBehind), seconds: 1)
    }
}
