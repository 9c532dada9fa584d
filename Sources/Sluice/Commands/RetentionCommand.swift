import ArgumentParser
import Foundation
import RetentionFeature
import SyncModel
import SyncStore
import Synchronization

struct RetentionCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "retention",
        abstract: "Do away with what is old, or say what that would be.",
        discussion: """
            Payloads of final mutations go after SLUICE_RETENTION_SUCCEEDED_DAYS; after
            SLUICE_RETENTION_DAYS go idempotency records, refused entries, tombstones with
            their ids, ids without an entity, and what failed and nobody settled. Gateways
            do this by themselves every SLUICE_RETENTION_INTERVAL_SECONDS.

            EXAMPLES
              sluice retention --dry-run            counts, and changes nothing
              sluice retention                      one run, with its progress
              sluice retention --json | jq .records

            A run that was cut off goes on when it is run again. Exits with 75 while another
            replica is at it.
            """
    )

    @Flag(help: "Count what would go, and change nothing.")
    var dryRun = false

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let busy = NothingDone(
            .conflict,
            "another replica is at it; its log and its metrics tell how far, and it can be asked again in a minute",
            Terminal.tryAgain
        )
        let result = try await options.withStore(dryRun ? nil : CommandAct("runRetention"), orElse: busy) {
            store,
            settings throws(Problem) -> RetentionRun.Result? in
            try await run(on: store, policy: Wiring.retentionPolicy(settings))
        }
        if case .lost = result.ending { throw Terminal.failure("another replica has taken over") }
        let lines = RetentionKind.allCases.map { line($0, result.report[$0]) }
        options.say(result.report.json, lines.joined(separator: "\n"))
        if !result.isComplete {
            throw Terminal.failure(
                "some rows were left, for they are locked or cannot be opened; the lines above and the gateways' logs say which"
            )
        }
    }

    /// Nil while another replica holds the lease.
    private func run(on gateway: Store, policy: RetentionPolicy) async throws(Problem) -> RetentionRun.Result? {
        let store = gateway.retention
        let lease = dryRun ? nil : try await store.claim(owner: UUID(), interval: nil)
        if !dryRun, lease == nil { return nil }
        let pace = Mutex(RetentionPace())
        let progress = Throttle(.seconds(2))
        let total = Mutex(0)
        let (isDryRun, isShown) = (dryRun, !options.json)
        let run = RetentionRun(
            store: store,
            cutoffs: policy.cutoffs(at: SystemClock.now()),
            lease: lease,
            logger: Wiring.commandLogger(),
            onStep: { kind, step, elapsed in
                let total = total.withLock { total in
                    total += step.changed
                    return total
                }
                if isShown, progress.isDue() { Terminal.complain("\(total) rows so far (\(kind.rawValue))") }
                if isDryRun { return }
                let seconds = elapsed / .seconds(1)
                let pause = pace.withLock { $0.pause(after: seconds, rows: step.looked, waiting: 0) }
                try await Task.sleep(for: .seconds(pause))
            }
        )
        let result = await run.run { isDryRun ? 5_000 : pace.withLock { $0.limit } }
        guard let lease else {
            if case .failed(let problem) = result.ending { throw problem }
            return result
        }
        if case .failed(let problem) = result.ending {
            _ = try? await store.release(lease, report: nil, due: SystemClock.now())
            throw problem
        }
        if result.isFinished {
            let status = try await gateway.retentionStatus()
            // the gateways' own schedule stays
            try await store.release(lease, report: result.report, due: status.dueAt ?? SystemClock.now())
        }
        return result
    }

    private func line(_ kind: RetentionKind, _ count: Int) -> String {
        let number = String(count)
        let padding = String(repeating: " ", count: max(0, 12 - number.count))
        return "\(padding)\(number)  \(kind.words(isDone: !dryRun))"
    }
}

extension RetentionKind {
    /// What happens to rows of the kind, for people.
    fileprivate func words(isDone: Bool) -> String {
        let (what, done, undone) =
            switch self {
            case .payloads: ("mutations", "have lost their payload", "would lose their payload")
            case .records: ("idempotency records", "are gone", "would go")
            case .unsettled:
                ("mutations that nobody settled", "were discarded", "would be discarded, or stay if needed")
            case .rejections: ("refused entries", "are gone", "would go")
            case .tombstones: ("tombstones", "are gone", "would go")
            case .mappings: ("ids without an entity", "are gone", "would go")
            case .deliveries: ("deliveries of webhooks", "are gone", "would go")
            case .audit: ("acts of operators", "are gone", "would go")
            }
        return "\(what) \(isDone ? done : undone)"
    }
}
