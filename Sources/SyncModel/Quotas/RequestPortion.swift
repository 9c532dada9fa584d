/// One gateway's share of an organization's bucket.
///
/// Requests that it drew ahead, to admit them without asking the bucket. Pure; the store draws.
public struct RequestPortion: Sendable {
    /// The answer to a request.
    public enum Answer: Sendable, Hashable {
        case admitted(QuotaStatus)
        case refused(QuotaStatus)
        /// The bucket has to be asked first.
        case unknown
    }

    /// How long a drawn portion may be used, in microseconds.
    ///
    /// A bucket holds no more than a second's worth.
    static let lifetime: Int64 = 1_000_000
    /// The shortest time between draws after one found too little, in milliseconds.
    static let pause: Int64 = 50

    /// The organization's quota as this gateway last knew it.
    public private(set) var quota: Quota
    private var held: Int64 = 0
    private var heldUntil = Timestamp(microseconds: 0)
    /// Until then the bucket is empty.
    private var emptyUntil = Timestamp(microseconds: 0)
    /// Tokens that the last draw left in the bucket, for all gateways.
    private var leftBehind: Int64 = 0

    /// An empty portion.
    public init(_ quota: Quota) {
        self.quota = quota
    }

    /// The most that a gateway holds: a quarter second's worth, and one at least.
    public var size: Int64 { Swift.max(1, quota.limit / 4) }

    /// Admits one request, if the drawn tokens allow it.
    public mutating func ask(_ quota: Quota, at now: Timestamp) -> Answer {
        if quota != self.quota { change(to: quota) }
        if now > heldUntil { held = 0 }
        if held > 0 {
            held -= 1
            return .admitted(standing)
        }
        // a clock that was set back keeps no request waiting
        let wait = emptyUntil.microseconds - now.microseconds
        return wait > 0 && wait <= Self.lifetime ? .refused(standing) : .unknown
    }

    /// Whether to draw ahead, before any request has to wait.
    ///
    /// Half of the portion is used, and the bucket is not known to be empty.
    public func isLow(at now: Timestamp) -> Bool {
        size > 1 && held <= size / 2 && now >= emptyUntil
    }

    /// How many to draw.
    ///
    /// The missing part of the portion, and one for each waiting request.
    public func wanted(waiting: Int) -> Int64 { size - held + Int64(waiting) }

    /// - Parameter bucket: as the draw left it.
    public mutating func add(_ granted: Int64, wanted: Int64, from bucket: TokenBucket, at now: Timestamp) {
        held += granted
        heldUntil = Timestamp(microseconds: now.microseconds + Self.lifetime)
        leftBehind = bucket.left(of: quota)
        guard granted < wanted else { return }
        // no longer than `ask` believes, which would ask the bucket again at once, and again
        let wait = Swift.max(Self.pause, bucket.millisecondsToNext(of: quota)) * 1_000
        emptyUntil = Timestamp(microseconds: now.microseconds + Swift.min(wait, Self.lifetime))
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
