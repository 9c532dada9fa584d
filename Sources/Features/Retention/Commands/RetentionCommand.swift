import ArgumentParser
import CommandSupport
import FoundationEssentials
import SyncModel
import SyncStore
import Synchronization

struct RetentionCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "retention",
        abstract: "Delete expired data, or preview what would be deleted.",
        discussion: """
            EXAMPLES
              sluice retention --dry-run
              sluice retention
              sluice retention --json | jq .records

            Gateways run retention automatically every SLUICE_RETENTION_INTERVAL_SECONDS. Use the command to see what \
            a run would delete (--dry-run), or to delete it immediately.

            After SLUICE_RETENTION_SUCCEEDED_DAYS, it deletes the payloads of succeeded and discarded mutations, and \
            delivered webhook messages. After SLUICE_RETENTION_DAYS:

            - The records of mutations and rejected entries (idempotency records): a repeat of such a mutation is \
            then refused. Under another device id, such as that of a restored device, it counts as new.
            - The entries of deleted entities (tombstones) with their ids: a device that has not pulled since starts \
            over.
            - Failed and conflicting mutations, unless others depend on them: they are discarded, and the user's lane \
            continues.
            - Id mappings without an entity, and undelivered webhook messages.

            After SLUICE_RETENTION_AUDIT_DAYS, it deletes operators' actions, and ended bulk operations on mutations.

            Prints the number of rows of each kind, and progress to standard error. If a run was interrupted, the \
            next run continues.
            """
                + HelpText.exitCodes([
                    0: "All expired data is deleted, or counted with --dry-run.",
                    1: HelpText.failure("Some rows were skipped", "another process took over the run"),
                    75: "Another process runs retention, and nothing was deleted. Try again later. --dry-run never "
                        + "exits with this code.",
                ])
    )

    @Flag(help: "Count what would be deleted without changing anything.")
    var dryRun = false

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let busy = CommandFailure(
            .conflict,
            "another replica runs retention (see its log and metrics); try again in a minute",
            Terminal.tryAgain
        )
        let result = try await options.withStore(dryRun ? nil : CommandAct("runRetention"), orElse: busy) {
            store,
            settings throws(Problem) -> RetentionRun.Result? in
            try await run(on: store, policy: settings.retentionPolicy)
        }
        if case .lost = result.ending { throw Terminal.failure("another replica has taken over") }
        let lines = RetentionKind.allCases.map { line($0, result.report[$0]) }
        options.output(result.report.json, lines.joined(separator: "\n"))
        if !result.isComplete {
            throw Terminal.failure(
                "some rows were skipped: locked, or cannot be decrypted; see the lines above and the gateways' logs"
            )
        }
    }

    /// Runs retention; returns nil while another replica holds the lease.
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
            logger: .ofCommands(),
            onStep: { kind, step, elapsed in
                let total = total.withLock { total in
                    total += step.changed
                    return total
                }
                if isShown, progress.isDue() { Terminal.printError("\(total) rows so far (\(kind.rawValue))") }
                if isDryRun { return }
                let seconds = elapsed / .seconds(1)
                let pause = pace.withLock { $0.pause(after: seconds, rows: step.scanned, waiting: 0) }
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
            // the gateways' own schedule is unchanged
            try await store.release(lease, report: result.report, due: status.dueAt ?? SystemClock.now())
        }
        return result
    }

    private func line(_ kind: RetentionKind, _ count: Int) -> String {
        let number = String(count)
        let padding = String(repeating: " ", count: max(0, 12 - number.count))
        return "\(padding)\(number)  \(kind.summary(isDone: !dryRun))"
    }
}

extension RetentionKind {
    /// Describes the deletion of rows of this kind in a sentence.
    fileprivate func summary(isDone: Bool) -> String {
        let (what, done, undone) =
            switch self {
            case .payloads: ("mutations", "lost their payload", "would lose their payload")
            case .records: ("idempotency records", "were deleted", "would be deleted")
            case .unsettled:
                ("unsettled mutations", "were discarded", "would be discarded, or kept if needed")
            case .rejections: ("rejected entries", "were deleted", "would be deleted")
            case .tombstones: ("tombstones", "were deleted", "would be deleted")
            case .channels: ("ends of stays in channels, and of grants", "were deleted", "would be deleted")
            case .mappings: ("ids without an entity", "were deleted", "would be deleted")
            case .deliveries: ("webhook deliveries", "were deleted", "would be deleted")
            case .audit: ("operator actions", "were deleted", "would be deleted")
            }
        return "\(what) \(isDone ? done : undone)"
    }
}
