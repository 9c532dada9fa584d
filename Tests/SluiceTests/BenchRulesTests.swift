import Foundation
import SyncModel
import Testing

@testable import Sluice

/// The rules by which `sluice bench` interprets its measurements.
@Suite struct BenchRulesTests {
    private static func use(own: Double = 0.2, busy: Double? = 0.5, _ waits: [BenchWait: Int] = [:]) -> BenchUse {
        var use = BenchUse()
        (use.own, use.busy, use.waits) = (own, busy, waits)
        return use
    }

    private static func machine(limit: Double? = nil) -> BenchMachine {
        var machine = BenchMachine()
        (machine.cores, machine.limit) = (2, limit)
        return machine
    }

    @Test(
        arguments: [
            (use(own: 0.8, busy: 1.9, [.flush: 9]), nil, BenchLimit.machineCPU),
            (use(own: 1.6, busy: 1.9, [.gateway: 9]), nil, .gatewayCPU),
            (use(own: 0.9, busy: 1.0), 1.0, .gatewayCPU),
            (use(own: 0.8, busy: 1.0, [.running: 1]), 1.0, .databaseCPU),
            (use(own: 1.6, busy: nil, [.lock: 1]), 4.0, .locks),
            (use([.running: 5, .flush: 4]), nil, .databaseCPU),
            (use([.running: 5, .flush: 6]), nil, .flush),
            (use([.running: 5, .standby: 6]), nil, .standby),
            (use([.running: 5, .tables: 6]), nil, .tables),
            (use([.running: 5, .gateway: 6]), nil, .roundTrips),
            (use([.running: 5, .other: 6]), nil, .unknown),
            (use(), nil, .unknown),
        ] as [(BenchUse, Double?, BenchLimit)]
    )
    func `the limit is a busy CPU or what the sessions wait for`(use: BenchUse, limit: Double?, expected: BenchLimit) {
        #expect(BenchLimit.of(use, on: Self.machine(limit: limit)) == expected)
    }

    @Test(
        arguments: [
            ("active", nil, nil, BenchWait.running), ("active", "IO", "WALSync", .flush),
            ("active", "IO", "WalSync", .flush),
            ("active", "LWLock", "WALWrite", .flush), ("active", "IO", "DataFileRead", .tables),
            ("active", "LWLock", "BufferContent", .other), ("active", "IPC", "SyncRep", .standby),
            ("active", "Lock", "transactionid", .lock), ("active", "Client", "ClientRead", .gateway),
            ("idle in transaction", "Client", "ClientRead", .gateway), ("idle", "Client", "ClientRead", nil),
            (nil, nil, nil, nil),
        ] as [(String?, String?, String?, BenchWait?)]
    )
    func `a session's wait is read from pg_stat_activity`(
        state: String?,
        type: String?,
        event: String?,
        wait: BenchWait?
    ) {
        #expect(BenchWait(state, type, event) == wait)
    }

    @Test func `half of the rate serves the busiest minute of the users`() {
        var assumptions = BenchAssumptions()
        // 7,000 × 0.5 × 86,400 ÷ (50 × 10) = 604,800
        #expect(assumptions.users(at: 7_000) == 600_000)
        assumptions.peakFactor = 1
        assumptions.editsPerDay = 43_200
        #expect(assumptions.users(at: 99.9) == 99)
        #expect(assumptions.users(at: 0.5) == 0)
        #expect(assumptions.users(at: 0) == 0)
    }

    @Test func `CPU and WAL are differences between two readings`() {
        var (before, after) = (BenchMeter.Reading(), BenchMeter.Reading())
        after.moment = before.moment + .seconds(2)
        (before.own, after.own) = (1, 2)
        (before.machine, after.machine) = (10, 13)
        // session 8 was opened between the readings
        (before.sessions, after.sessions) = ([7: 5], [7: 6, 8: 1])
        (before.wal, after.wal) = (100, 5_100)
        let use = BenchUse(before, after, [:], mutations: 2)
        #expect(use.own == 0.5 && use.busy == 1.5 && use.sessions == 1 && use.walPerMutation == 2_500)
        let unknown = BenchUse(BenchMeter.Reading(), BenchMeter.Reading(), [:], mutations: 0)
        #expect(unknown.busy == nil && unknown.sessions == nil && unknown.walPerMutation == nil)
    }

    @Test func `percentiles are the latencies that a share of the pushes did not exceed`() {
        let sorted = (1...200).map { Int32($0 * 1_000) }
        #expect(BenchTally.percentile(0.5, of: sorted) == 100)
        #expect(BenchTally.percentile(0.99, of: sorted) == 198)
        #expect(BenchTally.percentile(0.99, of: [5_500]) == 5.5)
        #expect(BenchTally.percentile(0.5, of: []) == nil)
    }

    @Test func `the stages share the time and respect the limit of mutations in a push`() {
        let stages = BenchStage.all(seconds: 20, connections: 64, maximumMutations: 10)
        #expect(stages.map(\.connections) == [1, 64, 32])
        #expect(stages.map(\.mutations) == [1, 1, 10])
        #expect(stages.map(\.seconds).reduce(0, +) == 20)
        #expect(BenchStage.all(seconds: 3, connections: 2, maximumMutations: 500).map(\.mutations) == [1, 1, 50])
    }

    @Test func `the ids of the benchmark's users begin like their organization's`() {
        let organization = UUIDv7Generator().make(at: Timestamp(microseconds: 1_795_000_000_000_000))
        let ids = (0..<300).map { BenchTenants.user(UInt16($0), of: organization).uuidString.lowercased() }
        #expect(Set(ids).count == 300)
        let prefix = organization.uuidString.lowercased().prefix(24) + "be7c0000"
        #expect(ids.allSatisfy { $0.hasPrefix(prefix) })
    }

    @Test func `numbers are short and have separators`() {
        #expect([0.004, 0.126, 1.26, 12.34].map(BenchReport.decimal) == ["0.0", "0.13", "1.3", "12.3"])
        #expect([0, 999, 1_000, 1_234_567].map(BenchReport.whole) == ["0", "999", "1,000", "1,234,567"])
    }
}
