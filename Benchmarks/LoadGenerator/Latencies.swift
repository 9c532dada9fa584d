/// A histogram of microseconds with a fixed number of buckets, each less than one percent wide.
struct Latencies {
    private static let subBits = 7
    private static let subBuckets = 1 << subBits
    /// The groups of buckets, for values up to 2^36 microseconds, which is nineteen hours.
    private static let groups = 36 - subBits + 1

    private var counts = [Int](repeating: 0, count: groups * subBuckets + subBuckets)
    private(set) var count = 0
    private(set) var maximum = 0

    mutating func record(_ microseconds: Int) {
        let value = max(0, microseconds)
        counts[min(Self.bucket(of: value), counts.count - 1)] += 1
        count += 1
        maximum = max(maximum, value)
    }

    /// The latency that a share of the answers did not exceed.
    func percentile(_ share: Double) -> Int {
        let wanted = max(1, Int((Double(count) * share).rounded(.up)))
        var seen = 0
        for (bucket, number) in counts.enumerated() {
            seen += number
            if seen >= wanted { return min(Self.highest(in: bucket), maximum) }
        }
        return maximum
    }

    /// Values below 2^7 have a bucket each; above, every doubling has 2^7 buckets.
    private static func bucket(of value: Int) -> Int {
        guard value >= subBuckets else { return value }
        let shift = Int.bitWidth - 1 - value.leadingZeroBitCount - subBits
        return (shift + 1) * subBuckets + (value >> shift) - subBuckets
    }

    private static func highest(in bucket: Int) -> Int {
        guard bucket >= subBuckets else { return bucket }
        let shift = bucket / subBuckets - 1
        return ((bucket % subBuckets + subBuckets + 1) << shift) - 1
    }
}
