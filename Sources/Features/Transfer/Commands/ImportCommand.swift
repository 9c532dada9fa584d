import ArgumentParser
import CommandSupport
import FoundationEssentials
import Glibc
import JSONText
import NIOPosix
import SyncModel
import SyncStore

struct ImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Import entities from a file, one per line (NDJSON).",
        usage: "sluice import --organization <organization> [--dry-run] [<options>] <file>",
        discussion: """
            EXAMPLES
              sluice import --organization 0192f0c1-2345-7abc-8def-0123456789ab \\
                --dry-run all.ndjson
              sluice import --organization 0192f0c1-2345-7abc-8def-0123456789ab \\
                --errors rejected.ndjson all.ndjson
              zcat all.ndjson.gz \\
                | sluice import --organization 0192f0c1-2345-7abc-8def-0123456789ab -

            Use it to move an organization's data to Sluice, or between databases. Each line is an entity, as written \
            by `sluice export`, or an event as accepted by POST /v1/ingest:

              {"entity_type":"contact","id":4711,"version":7,"document":{"name":"Kari"}}
              {"entity_type":"contact","id":4712,"version":3,"deleted":true}

            Further members are "occurred_at", "owner" and "private"; "cursor" has no effect. A line with \
            "private": true is rejected if the whole organization would see the entity: first create its type. A \
            line replaces the entity, unless an earlier event or line about it is newer, by version, otherwise by \
            time; a line without both counts as newest. Devices receive the changes like all others. Nothing is sent \
            to the upstream.

            If an import was interrupted, run it again: lines with the same content, or the same event_id, are applied \
            once per --source. Unless --rate is given, an import pauses so that it works half of the time, or one \
            tenth while the database is busy. It does not count towards the organization's quota of requests. But with \
            a quota of 10 requests per second, for example, it commits at most 5 batches per second.

            --updated-since includes lines without "occurred_at". Prints the numbers of applied and rejected lines; \
            with --json, as JSON. The first 20 rejected lines are printed to standard error, and all of them to the \
            file of --errors.
            """
                + HelpText.exitCodes([
                    0: "All lines are applied, or were applied before.",
                    1: "Lines were rejected, or the import failed; standard error has the reason.",
                    69: "The database is unreachable, or was unavailable or overloaded for too long; run it again.",
                ])
    )

    @Argument(help: "File, or - for standard input.", completion: .file(extensions: ["ndjson", "jsonl"]))
    var file: String

    @OptionGroup var transfer: TransferOptions

    @Option(
        help: ArgumentHelp("Source of the lines. To apply the same lines again, use another name.", valueName: "name")
    )
    var source = "import"

    @Option(
        help: ArgumentHelp(
            "File for the line number and the errors of each rejected line. Earlier content is replaced.",
            valueName: "file"
        )
    )
    var errors: String?

    @Flag(help: "Only check each line by itself, not against stored data; write nothing.")
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
        let refused = RefusedLines(try errors.map { try OutputFile(replacing: $0, excluding: input) }, progress)
        let id = transfer.organization
        let report = try await options.withStore(
            dryRun ? nil : CommandAct("importEntities", of: transfer.organization, ["source": source]),
            orElse: .noOrganization(id),
            result: { .leaving(Int($0.refused)) }
        ) { store, _ throws(Problem) -> EntityImport.Report? in
            guard let organization = try await store.administration.organization(id) else { return nil }
            guard organization.status == .active else {
                let detail = "organization \(id.lowercased) is \(organization.status.rawValue) and accepts no data"
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
        output(report, progress.seconds)
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
            Terminal.printError("the organization's quota is \(quota.limit) requests per second: half as many batches")
        }
        let pace = Box(TransferPace(rate: transfer.rate, quota: quota))
        let read = Box<Int64>(0)
        return try await withThrowingTaskGroup(of: Void.self) { group in
            // one task commits and another task notifies, as in gateways
            group.addTask { try await store.ingest.runCommitters() }
            group.addTask { try await store.notifier.run() }
            defer { group.cancelAll() }
            var work = EntityImport(
                store.ingest,
                importing,
                limit: { pace.value.limit },
                refused: refused.record,
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
            // waits until the last hint is sent, which takes at most a tenth of a second
            try? await Task.sleep(for: .milliseconds(200))
            return report
        }
    }

    private func output(_ report: EntityImport.Report, _ seconds: Double) {
        options.output(TransferFormatting.summary(report, seconds: seconds, isDryRun: dryRun)) { writer in
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
            writer.member("lines_a_second", TransferFormatting.rate(report.lines, seconds))
        }
    }
}

/// A value that several closures share.
final class Box<Value> {
    var value: Value

    init(_ value: Value) {
        self.value = value
    }
}

// MARK: - InputFile

/// A file, or standard input, that is read in parts.
final class InputFile: Sendable {
    private static let partBytes = 262_144

    private let descriptor: Int32
    /// The size in bytes; nil for an input that is not a regular file.
    let size: Int64?
    /// The device and the inode, which identify the file under each of its names.
    private let identity: (dev_t, ino_t)

    /// - Parameter path: `-` for standard input.
    init(_ path: String) throws {
        descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Terminal.failure("\(path) cannot be read: \(Self.lastError)") }
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else {
            throw Terminal.failure("\(path) cannot be read: \(Self.lastError)")
        }
        guard facts.st_mode & S_IFMT != S_IFDIR else { throw Terminal.failure("\(path) is a directory") }
        identity = (facts.st_dev, facts.st_ino)
        size = facts.st_mode & S_IFMT == S_IFREG ? Int64(facts.st_size) : nil
    }

    deinit { close(descriptor) }

    /// Whether a descriptor refers to this regular file.
    func isSame(as other: Int32) -> Bool {
        var facts = stat()
        return size != nil && fstat(other, &facts) == 0 && identity == (facts.st_dev, facts.st_ino)
    }

    /// Returns the next bytes; nil at the end. A thread of the pool reads them, because reading a pipe may block.
    func next() async throws -> [UInt8]? {
        let descriptor = descriptor
        return try await NIOThreadPool.singleton.runIfActive {
            while true {
                var count = 0
                let part = [UInt8](unsafeUninitializedCapacity: Self.partBytes) { buffer, filled in
                    count = read(descriptor, buffer.baseAddress, buffer.count)
                    filled = max(0, count)
                }
                if count >= 0 { return part.isEmpty ? nil : part }
                guard errno == EINTR else { throw FileFailure("the input cannot be read: \(Self.lastError)") }
            }
        }
    }

    static var lastError: String { String(cString: strerror(errno)) }
}

/// The reason why a file cannot be read or written, as a text for people.
struct FileFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}

// MARK: - RefusedLines

/// Reports refused lines. Standard error shows the first lines; a file, if there is one, gets all of them.
final class RefusedLines {
    /// The number of refused lines that standard error shows.
    static let shown = 20

    private let file: OutputFile?
    private let progress: TransferProgress
    private var count = 0
    /// The reason why the file could not be written; nil without a failure.
    private(set) var failure: FileFailure?

    init(_ file: OutputFile?, _ progress: TransferProgress) {
        self.file = file
        self.progress = progress
    }

    func record(_ refusal: EntityImport.Refusal) {
        count += 1
        if count <= Self.shown {
            progress.clear()
            for line in Self.lines(of: refusal) { Terminal.printError(line) }
        } else if count == Self.shown + 1 {
            progress.clear()
            Terminal.printError(
                file == nil ? "more lines were rejected; --errors FILE lists all" : "the file of errors lists more"
            )
        }
        do throws(FileFailure) { try file?.write(Self.line(refusal)) } catch { failure = failure ?? error }
    }

    static func lines(of refusal: EntityImport.Refusal) -> [String] {
        let places = refusal.problem.shownErrors
        return (places.isEmpty ? [TerminalText.of(refusal.problem.detail)] : places).prefix(4)
            .map { "line \(refusal.line): \($0)" }
    }

    static func line(_ refusal: EntityImport.Refusal) -> [UInt8] {
        JSONWriter.object { writer in
            writer.member("line", refusal.line)
            writer.member("code", refusal.problem.code.rawValue)
            writer.member("detail", refusal.problem.detail)
            writer.name("errors")
            writer.beginArray()
            for error in refusal.problem.errors {
                writer.object {
                    $0.member("pointer", error.pointer)
                    $0.member("rule", error.rule)
                    $0.member("detail", error.detail)
                }
            }
            writer.endArray()
        } + [0x0a]
    }
}
