import SyncModel
import TestSupport
import Testing

@testable import SyncModel

/// Quotas as token buckets.
@Suite struct TokenBucketTests {
    private static let start = Timestamp(microseconds: 1_795_000_000_000_000)
    private static let daily = Quota(.mutations, limit: 7)

    @Test func `a day's quota may be used at once and refills evenly`() {
        var bucket = TokenBucket(fullAt: Self.start)
        #expect(bucket.take(5, of: Self.daily, at: Self.start) == .taken)
        #expect(bucket.take(2, of: Self.daily, at: Self.start) == .taken)
        // a seventh of a day, to the millisecond: 12,342,857.14…
        #expect(bucket.take(1, of: Self.daily, at: Self.start) == .fits(after: 12_342_858))
        var early = bucket
        #expect(early.take(1, of: Self.daily, at: Self.start.adding(seconds: 12_342.857)) == .fits(after: 1))
        #expect(bucket.take(1, of: Self.daily, at: Self.start.adding(seconds: 12_342.858)) == .taken)
        #expect(bucket.left(of: Self.daily) == 0)
        let day = Self.start.adding(seconds: 12_342.858 + 86_400)
        #expect(bucket.status(of: Self.daily, at: day) == QuotaStatus(quota: Self.daily, left: 7, seconds: 0))
    }

    @Test func `a refused request takes nothing and fits exactly after the returned time`() {
        var random = SeededRandom(7)
        for _ in 0..<2_000 {
            let quota = Quota(
                Bool.random(using: &random) ? .mutations : .requests,
                limit: .random(in: 1...(Bool.random(using: &random) ? 10 : 1_000_000), using: &random)
            )
            var bucket = TokenBucket(fullAt: Self.start)
            var now = Self.start
            for _ in 0..<20 {
                let count = Int.random(in: 1...Int(quota.limit) + 2, using: &random)
                now = now.adding(seconds: .random(in: 0...Double(quota.kind.seconds) / 4, using: &random))
                let before = bucket
                guard case .fits(let after) = bucket.take(count, of: quota, at: now) else { continue }
                #expect(after >= 1)
                #expect(bucket.status(of: quota, at: now).left == before.status(of: quota, at: now).left)
                let base = bucket.asOf
                func moment(_ milliseconds: Int64) -> Timestamp {
                    Timestamp(microseconds: base.microseconds + milliseconds * 1_000)
                }
                var (early, inTime) = (bucket, bucket)
                if after > 1 { #expect(early.take(count, of: quota, at: moment(after - 1)) != .taken) }
                #expect(inTime.take(count, of: quota, at: moment(after)) == .taken)
            }
        }
    }

    /// Whenever requests arrive, every interval admits at most the rate plus one full bucket.
    @Test(arguments: [1, 3, 7, 1_000, 999_983] as [Int64]) func `the rate holds over any interval`(limit: Int64) {
        var random = SeededRandom(UInt64(limit))
        for kind in Quota.Kind.allCases {
            let quota = Quota(kind, limit: limit)
            var bucket = TokenBucket(fullAt: Self.start)
            var now = Self.start
            var given: Int64 = 0
            for _ in 0..<5_000 {
                now = Timestamp(
                    microseconds: now.microseconds + .random(in: 0...kind.seconds * 100_000, using: &random)
                )
                given += bucket.take(upTo: .random(in: 0...limit, using: &random), of: quota, at: now)
                let elapsed = Double(now.microseconds - Self.start.microseconds) / 1_000_000
                #expect(Double(given) <= Double(limit) * (1 + elapsed / Double(kind.seconds)) + 1e-6)
            }
            let elapsed = Double(now.microseconds - Self.start.microseconds) / 1_000_000
            #expect(Double(given) > Double(limit) * 0.3 * elapsed / Double(kind.seconds), "too little was granted")
        }
    }

    @Test func `an unused quota admits a push larger than a day's limit`() {
        var bucket = TokenBucket(fullAt: Self.start)
        #expect(bucket.take(20, of: Self.daily, at: Self.start) == .taken)
        #expect(bucket.left(of: Self.daily) == 0)
        // the thirteen beyond the daily limit have to refill before the first of the next day
        #expect(bucket.take(1, of: Self.daily, at: Self.start) == .fits(after: 172_800_000))
        #expect(bucket.take(8, of: Self.daily, at: Self.start) == .fits(after: 246_857_143))
        let later = Self.start.adding(seconds: 246_857.143)
        #expect(bucket.take(8, of: Self.daily, at: later) == .taken)
    }

    @Test func `a new limit keeps the used amount`() {
        var bucket = TokenBucket(fullAt: Self.start)
        #expect(bucket.take(5, of: Self.daily, at: Self.start) == .taken)
        #expect(bucket.left(of: Quota(.mutations, limit: 100)) == 95)
        #expect(bucket.left(of: Quota(.mutations, limit: 5)) == 0)
        #expect(bucket.left(of: Quota(.mutations, limit: 1)) == 0)
    }

    @Test func `after the limit is lowered, the debt is no more than the largest push`() {
        var bucket = TokenBucket(fullAt: Self.start)
        #expect(bucket.take(1_000_000, of: Quota(.mutations, limit: 1_000_000), at: Self.start) == .taken)
        let low = Quota(.mutations, limit: 1_000)
        let wait = bucket.take(1, of: low, at: Self.start)
        #expect(wait == .fits(after: 10_001 * 86_400_000 / 1_000))
        var requests = TokenBucket(fullAt: Self.start)
        #expect(requests.take(upTo: 1_000, of: Quota(.requests, limit: 1_000), at: Self.start) == 1_000)
        let one = Quota(.requests, limit: 1)
        #expect(requests.take(upTo: 1, of: one, at: Self.start) == 0)
        #expect(requests.millisecondsToNext(of: one) == 1_000)
    }

    @Test func `a clock set back refills nothing, and one that was far ahead blocks no user`() {
        var bucket = TokenBucket(fullAt: Self.start)
        #expect(bucket.take(7, of: Self.daily, at: Self.start) == .taken)
        let state = bucket
        #expect(bucket.take(1, of: Self.daily, at: Self.start.adding(seconds: -30)) != .taken)
        #expect(bucket == state)
        var wrong = TokenBucket(missing: state.missing, asOf: Self.start.adding(seconds: 86_400 * 365))
        #expect(wrong.take(1, of: Self.daily, at: Self.start) == .fits(after: 12_342_858))
        #expect(wrong.take(1, of: Self.daily, at: Self.start.adding(seconds: 12_342.858)) == .taken)
    }

    @Test func `the largest numbers do not overflow`() {
        let quota = Quota(.mutations, limit: 1_000_000_000)
        var bucket = TokenBucket(fullAt: Timestamp(microseconds: 0))
        #expect(bucket.take(10_000, of: quota, at: Timestamp(microseconds: 0)) == .taken)
        #expect(bucket.take(upTo: .max / 1_000_000_000, of: quota, at: Timestamp(microseconds: 0)) == 999_990_000)
        #expect(bucket.take(1, of: quota, at: Timestamp(microseconds: 4_000_000_000_000_000)) == .taken)
        #expect(bucket.left(of: quota) == 999_999_999)
    }
}

/// A replica's portion of an organization's bucket.
@Suite struct RequestPortionTests {
    private static let start = Timestamp(microseconds: 1_795_000_000_000_000)

    @Test func `admits nothing before the bucket was queried`() {
        var portion = RequestPortion(Quota(.requests, limit: 100))
        #expect(portion.admit(portion.quota, at: Self.start) == .unknown)
        #expect(portion.size == 25 && portion.wanted(waiting: 3) == 28)
        #expect(RequestPortion(Quota(.requests, limit: 1)).size == 1)
    }

    @Test func `admits the reserved requests, and is low when half are used`() {
        var portion = RequestPortion(Quota(.requests, limit: 100))
        var bucket = TokenBucket(fullAt: Self.start)
        let granted = bucket.take(upTo: 25, of: portion.quota, at: Self.start)
        portion.add(granted, wanted: 25, from: bucket, at: Self.start)
        for number in 1...25 {
            #expect(!portion.isLow(at: Self.start) || number > 13)
            let status = QuotaStatus(quota: portion.quota, left: Int64(100 - number), seconds: 1)
            #expect(portion.admit(portion.quota, at: Self.start) == .admitted(status))
        }
        #expect(portion.isLow(at: Self.start))
        #expect(portion.admit(portion.quota, at: Self.start) == .unknown)
    }

    @Test func `admits requests that were given back, as long as they were held`() {
        var portion = RequestPortion(Quota(.requests, limit: 100))
        portion.add(1, wanted: 1, from: TokenBucket(fullAt: Self.start), at: Self.start)
        #expect(portion.admit(portion.quota, at: Self.start) != .unknown)
        portion.release(1, at: Self.start.adding(seconds: 0.5))
        #expect(portion.admit(portion.quota, at: Self.start.adding(seconds: 0.5)) != .unknown)
        portion.release(1, at: Self.start.adding(seconds: 1.5))
        #expect(portion.admit(portion.quota, at: Self.start.adding(seconds: 1.5)) == .unknown)
    }

    @Test func `drops unused requests after a second`() {
        var portion = RequestPortion(Quota(.requests, limit: 100))
        portion.add(25, wanted: 25, from: TokenBucket(fullAt: Self.start), at: Self.start)
        #expect(portion.admit(portion.quota, at: Self.start.adding(seconds: 1)) != .unknown)
        #expect(portion.admit(portion.quota, at: Self.start.adding(seconds: 1.01)) == .unknown)
    }

    @Test func `queries an empty bucket again only after it refilled`() {
        var portion = RequestPortion(Quota(.requests, limit: 1))
        var bucket = TokenBucket(fullAt: Self.start)
        #expect(bucket.take(upTo: 1, of: portion.quota, at: Self.start) == 1)
        portion.add(0, wanted: 1, from: bucket, at: Self.start)
        let none = QuotaStatus(quota: portion.quota, left: 0, seconds: 1)
        for seconds in [0, 0.5, 0.999] {
            #expect(portion.admit(portion.quota, at: Self.start.adding(seconds: seconds)) == .refused(none))
            #expect(!portion.isLow(at: Self.start.adding(seconds: seconds)))
        }
        #expect(portion.admit(portion.quota, at: Self.start.adding(seconds: 1)) == .unknown)
        // a clock that was set back
        #expect(portion.admit(portion.quota, at: Self.start.adding(seconds: -3_600)) == .unknown)
    }

    @Test func `a bucket deep in debt refuses and is not queried without limit`() {
        var portion = RequestPortion(Quota(.requests, limit: 1))
        portion.add(0, wanted: 1, from: TokenBucket(missing: 250_000, asOf: Self.start), at: Self.start)
        let none = QuotaStatus(quota: portion.quota, left: 0, seconds: 1)
        #expect(portion.admit(portion.quota, at: Self.start) == .refused(none))
        #expect(portion.admit(portion.quota, at: Self.start.adding(seconds: 1.001)) == .unknown)
    }

    @Test func `a new limit applies immediately`() {
        var portion = RequestPortion(Quota(.requests, limit: 100))
        portion.add(25, wanted: 25, from: TokenBucket(fullAt: Self.start), at: Self.start)
        let small = Quota(.requests, limit: 4)
        #expect(portion.admit(small, at: Self.start) == .admitted(QuotaStatus(quota: small, left: 4, seconds: 1)))
        #expect(portion.admit(small, at: Self.start) == .unknown)
    }
}
