import Foundation
import StoreSupport
import Synchronization
import TestSupport
import Testing

/// Random histories against a model of the rules: pushes, modified repeats, answers of every class, lost workers and
/// settling; replicas with full, partial or empty caches; two organizations with the same ids.
@Suite struct RuleHistoryTests {
    /// The duration in seconds, the number of failures that end it, and the number of parallel histories: for `make
    /// fuzz`.
    private static let environment = ProcessInfo.processInfo.environment
    private static let seconds = environment["SLUICE_RULES_SECONDS"].flatMap(Double.init) ?? 0
    private static let breaches = environment["SLUICE_RULES_BREACHES"].flatMap(Int.init) ?? 1
    private static let workers = environment["SLUICE_RULES_WORKERS"].flatMap(Int.init) ?? 1
    /// Whether every history is the same, to reproduce a history that fails only sometimes.
    private static let isRepeated = environment["SLUICE_RULES_REPEATED"] == "1"

    @Test func `every answer of a random history follows the rules`() async throws {
        let first = Seed().value
        let tally = Mutex((histories: UInt64(0), checks: 0, breaches: 0))
        let deadline = ContinuousClock.now + .seconds(Self.seconds)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<Self.workers {
                group.addTask { @Sendable in
                    var world = try await RuleWorld()
                    var rest = 200
                    while true {
                        let number = tally.withLock { tally in
                            tally.histories += 1
                            return tally.histories - 1
                        }
                        var history = try await RuleHistory(world, seed: Self.isRepeated ? first : first &+ number)
                        do {
                            try await history.live(steps: 60)
                        } catch {
                            Issue.record("\(error)")
                            if tally.withLock({ tally in
                                tally.breaches += 1
                                return tally.breaches
                            }) >= Self.breaches {
                                return
                            }
                        }
                        let checked = history.checks
                        tally.withLock { $0.checks += checked }
                        rest -= 1
                        if rest == 0 { (world, rest) = (try await RuleWorld(), 200) }
                        if Self.seconds == 0 ? number + 1 >= 12 : .now >= deadline { return }
                    }
                }
            }
            try await group.waitForAll()
        }
        let (histories, checks, _) = tally.withLock { $0 }
        print("\(histories) histories of 60 steps from SLUICE_TEST_SEED=\(first), \(checks) checks")
    }
}
