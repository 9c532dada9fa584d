/// SplitMix64, which is fast and accepts any seed. So a push can be generated again from one number.
struct Random: RandomNumberGenerator {
    private static let step: UInt64 = 0x9E37_79B9_7F4A_7C15

    private var state: UInt64

    /// - Parameter skipped: the number of first values to skip.
    init(seed: UInt64, after skipped: Int = 0) {
        state = seed &+ Self.step &* UInt64(truncatingIfNeeded: skipped)
    }

    mutating func next() -> UInt64 {
        state &+= Self.step
        var mixed = state
        mixed = (mixed ^ (mixed &>> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed &>> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed &>> 31)
    }
}
