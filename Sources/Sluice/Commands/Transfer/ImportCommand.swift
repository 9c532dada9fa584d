import ArgumentParser
import Foundation
import JSONText
import SyncModel
import SyncStore
import TransferFeature

struct ImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Bring entities in from a file, one a line (NDJSON).",
        usage: "sluice import --organization <uuid> [--source <name>] [--errors <file>] [--dry-run] [<options>] <file>",
        discussion: """
            EXAMPLES
              sluice import --organization 0192f0c1-2345-7abc-8def-0123456789ab contacts.ndjson
              sluice import --organization 0192f0c1-2345-7abc-8def-0123456789ab --dry-run all.ndjson
              zcat all.ndjson.gz | sluice import --organization 0192f0c1-2345-7abc-8def-0123456789ab -

            A line is {"entity_type", "id", "document", "version" or "occurred_at",
            "owner", "deleted"}, as sluice export writes it, or an event as POST /v1/ingest
            takes it. Each goes by the rules of events into the feed, and phones hear of it.

            Cut off anywhere, it goes on where it was when it is run again: what a line says
            is taken once, for each --source. It leaves half of the time to others, nine
            tenths while the database is busy; --rate says otherwise. Quotas are for
            clients: it takes nothing from them, and where the organization has one, makes
            half as many batches a second as that allows requests.

            Refused lines are named on standard error, 20 of them, and all of them in the
            file of --errors; then it ends with 1.
            """
    )

    @Argument(help: "The file; - for standard input.", completion: .file(extensions: ["ndjson", "jsonl"]))
    var file: String

    @OptionGroup var transfer: TransferOptions

    @Option(help: ArgumentHelp("Whose the lines are: of one source each is taken once.", valueName: "name"))
    var source = "import"

    @Option(help: ArgumentHelp("Write every refused line's number and errors there.", valueName: "file"))
    var errors: String?

    @Flag(help: "Only check each line by itself, and write nothing.")
    var dryRun = false

    @OptionGroup var options: AdministrationOptions

    func validate() throws {
        guard IngestSource.isValid(source) else {
            throw ValidationError("--source must match [a-z][a-z0-9_-]{0,63}.")
        }
    }

    func run() async throws {
        let input = try InputFile(file)
        let progress = TransferProgress(isShown: !options.json)
        let refused = RefusedLines(try errors.map { try OutputFile(replacing: $0, besides: input) }, progress)
        let id = transfer.organization
        let report = try await options.withStore(
            dryRun ? nil : CommandAct("importEntities", of: transfer.organization, ["source": source]),
            orElse: .noOrganization(id),
            result: { .leaving(Int($0.refused)) }
        ) { store, _ throws(Problem) -> EntityImport.Report? in
            guard let organization = try await store.administration.organization(id) else { return nil }
            guard organization.status == .active else {
                let detail = "organization \(id.lowercased) is \(organization.status.rawValue), and takes nothing"
                throw Problem(.organizationUnknown, detail)
            }
            do {
                return try await bring(input, to: store, organization.settings.requestQuota, progress, refused)
            } catch {
                progress.clear()
                if let problem = error as? Problem { throw problem }
                throw Problem(.internalError, "\(error)")
            }
        }
        progress.clear()
        say(report, progress.seconds)
        if let failure = refused.failure { throw Terminal.failure(failure.description) }
        if report.refused > 0 { throw ExitCode.failure }
    }

    private func bring(
        _ input: InputFile,
        to store: Store,
        _ quota: Quota?,
        _ progress: TransferProgress,
        _ refused: RefusedLines
    ) async throws -> EntityImport.Report {
        var importing = EntityImport.Options(organization: transfer.organization, source: source)
        importing.types = Set(transfer.type)
        importing.updatedSince = transfer.updatedSince
        importing.isDryRun = dryRun
        if let quota, !options.json {
            Terminal.complain("the organization has a quota of \(quota.limit) requests a second: half as many batches")
        }
        let pace = Box(TransferPace(rate: transfer.rate, quota: quota))
        let read = Box<Int64>(0)
        return try await withThrowingTaskGroup(of: Void.self) { group in
            // as gateways do: one task commits, the other notifies them
            group.addTask { try await store.ingest.runCommitters() }
            group.addTask { try await store.notifier.run() }
            defer { group.cancelAll() }
            var work = EntityImport(
                store.ingest,
                importing,
                limit: { pace.value.limit },
                refused: refused.note,
                passed: { report, lines, seconds in
                    let share = input.size.map { Double(read.value) / Double(max($0, 1)) }
                    progress.show(share: share, lines: report.lines)
                    try await Task.sleep(for: .seconds(pace.value.pause(after: seconds, lines: lines)))
                }
            )
            let report = try await work.run {
                let part = try await input.next()
                read.value += Int64(part?.count ?? 0)
                return part
            }
            // the last hint is on its way for a tenth of a second at most
            try? await Task.sleep(for: .milliseconds(200))
            return report
        }
    }

    private func say(_ report: EntityImport.Report, _ seconds: Double) {
        options.say(TransferWords.summary(report, seconds: seconds, isDryRun: dryRun)) { writer in
            writer.member("organization_id", transfer.organization)
            writer.member("dry_run", dryRun)
            writer.member("lines", report.lines)
            writer.member("applied", report.applied)
            writer.member("stale", report.stale)
            writer.member("duplicates", report.duplicates)
            writer.member("echoes", report.echoes)
            writer.member("parked", report.parked)
            writer.member("refused", report.refused)
            writer.member("left_out", report.leftOut)
            writer.member("milliseconds", Int64(seconds * 1_000))
            writer.member("lines_a_second", TransferWords.rate(report.lines, seconds))
        }
    }
}

/// A value that closures share.
final class Box<Value> {
    var value: Value

    init(_ value: Value) {
        self.value = value
    }
}
