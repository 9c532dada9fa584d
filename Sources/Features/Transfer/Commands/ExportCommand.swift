import ArgumentParser
import CommandSupport
import Foundation
import JSONText
import SyncModel
import SyncStore

struct ExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Export an organization's entities to a file, one per line (NDJSON).",
        usage: "sluice export --organization <uuid> [--type <name> ...] [--tombstones] [--resume] [<options>] [<file>]",
        discussion: """
            EXAMPLES
              sluice export --organization 0192f0c1-2345-7abc-8def-0123456789ab all.ndjson
              sluice export --organization 0192f0c1-2345-7abc-8def-0123456789ab --resume all.ndjson
              sluice export --organization 0192f0c1-2345-7abc-8def-0123456789ab --type contact | gzip > contacts.gz

            Each line is {"entity_type", "id", "owner", "occurred_at", "document", "cursor"},
            as sluice import reads it. The file contains decrypted documents and entities
            that only their owner can see: protect it accordingly.

            The last line of an entity is its state at the end of the export. --resume
            continues an interrupted export after its last complete line. For a complete
            export, --resume appends the changes since then.
            """
    )

    @Argument(
        help: "File, which must not exist unless --resume is given. Default, or -: standard output.",
        completion: .file(extensions: ["ndjson"])
    )
    var file: String?

    @OptionGroup var transfer: TransferOptions

    @Flag(help: "Include entities that were deleted before the export.")
    var tombstones = false

    @Flag(help: "Continue after the file's last complete line.")
    var resume = false

    @OptionGroup var options: AdministrationOptions

    private var isToStandardOutput: Bool { file == nil || file == "-" }

    func validate() throws {
        if resume, isToStandardOutput { throw ValidationError("--resume requires a file.") }
    }

    func run() async throws {
        let id = transfer.organization
        var filter = EntityExport.Filter()
        filter.types = transfer.type
        filter.updatedSince = transfer.updatedSince
        filter.hasTombstones = tombstones
        let progress = TransferProgress(isShown: !options.json)
        let done = Box(EntityExport.Progress())
        let act = CommandAct("exportEntities", of: id)
        let ending = try await options.withStore(
            act,
            orElse: .noOrganization(id),
            result: { ending in
                if case .refused = ending { return .failed(.validationFailed) }
                return .leaving(Int(done.value.unreadable))
            }
        ) { store, _ throws(Problem) -> Ending? in
            guard let organization = try await store.administration.organization(id) else { return nil }
            guard organization.status != .purging else {
                throw Problem(.organizationUnknown, "organization \(id.lowercased) is being purged")
            }
            do {
                try await write(store.export(of: id, filter), done, progress)
            } catch {
                progress.clear()
                if let problem = error as? Problem { throw named(problem) }
                if let code = error as? ExitCode { return .refused(code) }
                throw Problem(.internalError, "\(error)")
            }
            return .whole
        }
        progress.clear()
        if case .refused(let code) = ending { throw code }
        output(done.value, progress.seconds)
        if done.value.unreadable > 0 {
            throw Terminal.failure("\(done.value.unreadable) documents cannot be decrypted and are missing")
        }
    }

    private enum Ending: Sendable {
        case whole
        /// The file cannot be used; the reason has been printed.
        case refused(ExitCode)
    }

    /// Adds the file's name to a problem of a file that is to be continued.
    private func named(_ problem: Problem) -> Problem {
        guard resume, [.invalidRequest, .cursorExpired].contains(problem.code), let file else { return problem }
        return Problem(problem.code, "cannot resume \(file): \(problem.detail)")
    }

    private func write(
        _ export: EntityExport,
        _ done: Box<EntityExport.Progress>,
        _ progress: TransferProgress
    ) async throws {
        let output = try OutputFile(file, isContinued: resume)
        var start: FeedCursor?
        if resume {
            let last = try output.lastLine(beginning: EntityExport.lineBeginning)
            start = try last.line.map { line throws(Problem) in try export.cursor(in: line) }
            // only a file that is an export is changed
            try output.cut(at: last.end)
        }
        let pace = Box(TransferPace(rate: transfer.rate))
        let unreadable = Box(0)
        try await export.run(
            after: start,
            limit: { pace.value.limit },
            unreadable: { key in
                unreadable.value += 1
                guard unreadable.value <= RefusedLines.shown else { return }
                progress.clear()
                Terminal.printError("cannot be decrypted and is omitted: \(key.type) \(TerminalText.of(key.id))")
            },
            passed: { state, rows, seconds in
                done.value = state
                let share = state.end > 0 ? Double(state.position) / Double(state.end) : 1
                progress.show(share: share, lines: state.lines)
                guard state.position < state.end else { return }
                try await Task.sleep(for: .seconds(pace.value.pause(after: seconds, lines: rows)))
            },
            output.write
        )
        try output.finish()
    }

    private func output(_ progress: EntityExport.Progress, _ seconds: Double) {
        let userMessage = TransferFormatting.summary(progress, seconds: seconds)
        guard !isToStandardOutput else {
            // the lines have it
            if !options.json { Terminal.printError(userMessage) }
            return
        }
        options.output(userMessage) { writer in
            writer.member("organization_id", transfer.organization)
            writer.member("lines", progress.lines)
            writer.member("tombstones", progress.tombstones)
            writer.member("unreadable", progress.unreadable)
            writer.member("milliseconds", Int64(seconds * 1_000))
            writer.member("lines_a_second", TransferFormatting.rate(progress.lines, seconds))
        }
    }
}
