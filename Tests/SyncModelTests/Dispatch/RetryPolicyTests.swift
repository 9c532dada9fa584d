import SyncModel
import Testing

@Suite struct RetryPolicyTests {
    private static let now = Timestamp(microseconds: 1_795_000_000_000_000)

    private static func pause(_ attempts: Int16, _ jitter: Double, _ policy: RetryPolicy = RetryPolicy()) -> Double {
        let due = policy.nextTry(after: attempts, now: now, jitter: jitter)
        return Double(due.microseconds - now.microseconds) / 1_000_000
    }

    @Test(arguments: [
        (1, 4), (2, 8), (3, 16), (4, 32), (5, 64), (6, 128), (7, 256), (8, 512), (9, 1_024), (10, 1_800), (11, 1_800),
        (50, 1_800), (62, 1_800), (63, 1_800), (100, 1_800), (Int(Int16.max), 1_800),
    ])
    func `the pause doubles up to half an hour`(_ attempts: Int, _ seconds: Double) {
        #expect(Self.pause(Int16(attempts), 0) == seconds)
    }

    @Test func `jitter never shortens a pause and adds a fifth at most`() {
        for attempts in 1...100 {
            let base = Self.pause(Int16(attempts), 0)
            for step in 0...20 {
                let pause = Self.pause(Int16(attempts), Double(step) / 20)
                #expect(pause >= base && pause <= base * 1.2 + 0.000_001)
            }
            #expect(Self.pause(Int16(attempts), 7) == Self.pause(Int16(attempts), 1))
            #expect(Self.pause(Int16(attempts), -7) == base)
        }
    }

    @Test func `no attempt is made before the upstream's Retry-After`() {
        let policy = RetryPolicy()
        let late = Self.now.adding(seconds: 3_600)
        #expect(policy.nextTry(after: 1, now: Self.now, notBefore: late, jitter: 1) == late)
        let early = Self.now.adding(seconds: 1)
        #expect(policy.nextTry(after: 1, now: Self.now, notBefore: early, jitter: 0) == Self.now.adding(seconds: 4))
        let past = Self.now.adding(seconds: -3_600)
        #expect(policy.nextTry(after: 1, now: Self.now, notBefore: past, jitter: 0) == Self.now.adding(seconds: 4))
    }

    @Test func `base and cap are settings`() {
        let policy = RetryPolicy(base: 0.5, cap: 3)
        #expect((1...4).map { Self.pause($0, 0, policy) } == [1, 2, 3, 3])
    }
}
