/// The tokens taken from a quota that are not refilled yet.
///
/// It uses whole numbers, so that rounding never loses or adds a token.
public struct TokenBucket: Sendable, Hashable {
    /// The amount missing until the bucket is full, in parts.
    ///
    /// A token has as many parts as its window has milliseconds, so that `limit` parts are refilled in each
    /// millisecond.
    public private(set) var missing: Int64
    public private(set) var asOf: Timestamp

    /// The maximum difference between the clocks of gateways, in microseconds.
    ///
    /// A bucket with a later time was written with a wrong clock. It counts as written now, so that no client is locked
    /// out until that time.
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
    /// If the bucket is full, even more than the whole quota can be taken, because a request that cannot be split must
    /// be possible eventually. The bucket is in debt afterwards, so that the average rate stays within the quota.
    ///
    /// - Returns: whether the tokens were taken; if not, the milliseconds until that number can be taken.
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
        /// The tokens can be taken after this many milliseconds, 1 or more.
        case fits(after: Int64)
    }

    /// Takes as many tokens as are left.
    ///
    /// - Returns: the number of taken tokens, at most `wanted`.
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

    /// The milliseconds until a token is left, as of ``asOf``.
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
        // usage under a higher limit is capped, so that a client waits at most until the largest possible debt is
        // refilled
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
/// It consists of tokens that the gateway drew in advance, to admit requests without reading the bucket. It does no
/// I/O; the store draws the tokens.
public struct RequestPortion: Sendable {
    /// The answer to a request.
    public enum Answer: Sendable, Hashable {
        case admitted(QuotaStatus)
        case refused(QuotaStatus)
        /// Tokens must be drawn from the bucket first.
        case unknown
    }

    /// The time for which a drawn portion may be used, in microseconds.
    ///
    /// A bucket contains at most the tokens of one second.
    static let lifetime: Int64 = 1_000_000
    /// The minimum time until the next draw if a draw found too few tokens, in milliseconds.
    static let pause: Int64 = 50

    /// The organization's quota as this gateway last read it.
    public private(set) var quota: Quota
    private var held: Int64 = 0
    private var heldUntil = Timestamp(microseconds: 0)
    /// The moment until which the bucket is empty.
    private var emptyUntil = Timestamp(microseconds: 0)
    /// The number of tokens that were in the bucket, for all gateways, after the last draw.
    private var leftBehind: Int64 = 0

    /// Creates an empty portion.
    public init(_ quota: Quota) {
        self.quota = quota
    }

    /// The maximum number of tokens that a gateway holds: the tokens of a quarter second, but at least one token.
    public var size: Int64 { Swift.max(1, quota.limit / 4) }

    /// Admits one request, if the drawn tokens allow it.
    public mutating func ask(_ quota: Quota, at now: Timestamp) -> Answer {
        if quota != self.quota { change(to: quota) }
        if now > heldUntil { held = 0 }
        if held > 0 {
            held -= 1
            return .admitted(standing)
        }
        // a clock that was set back does not make requests wait
        let wait = emptyUntil.microseconds - now.microseconds
        return wait > 0 && wait <= Self.lifetime ? .refused(standing) : .unknown
    }

    /// Whether to draw in advance, before any request has to wait.
    ///
    /// That is the case if half of the portion is used, and the bucket is not known to be empty.
    public func isLow(at now: Timestamp) -> Bool {
        size > 1 && held <= size / 2 && now >= emptyUntil
    }

    /// The number of tokens to draw.
    ///
    /// It is the missing part of the portion, and one token for each waiting request.
    public func wanted(waiting: Int) -> Int64 { size - held + Int64(waiting) }

    /// - Parameter bucket: the bucket after the draw.
    public mutating func add(_ granted: Int64, wanted: Int64, from bucket: TokenBucket, at now: Timestamp) {
        held += granted
        heldUntil = Timestamp(microseconds: now.microseconds + Self.lifetime)
        leftBehind = bucket.left(of: quota)
        guard granted < wanted else { return }
        // at most the time that `ask` accepts; otherwise `ask` would cause draws again and again
        let wait = Swift.max(Self.pause, bucket.millisecondsToNext(of: quota)) * 1_000
        emptyUntil = Timestamp(microseconds: now.microseconds + Swift.min(wait, Self.lifetime))
    }

    /// Takes back the tokens of requests that were not made, if these tokens can still be used.
    public mutating func giveBack(_ count: Int64, at now: Timestamp) {
        if now <= heldUntil { held += count }
    }

    /// Discards the tokens beyond the portion, once the waiting requests are served.
    public mutating func trim() {
        held = Swift.min(held, size)
    }

    private mutating func change(to quota: Quota) {
        self.quota = quota
        held = Swift.min(held, size)
        leftBehind = Swift.min(leftBehind, quota.limit)
        emptyUntil = Timestamp(microseconds: 0)
    }

    private var standing: QuotaStatus {
        QuotaStatus(quota: quota, left: Swift.min(quota.limit, held + leftBehind), seconds: 1)
    }
}
