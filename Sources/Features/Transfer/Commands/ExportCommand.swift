import ArgumentParser
import CommandSupport
import FoundationEssentials
import Glibc
import JSONText
import SyncModel
import SyncStore

struct ExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Export an organization's entities to a file, one per line (NDJSON).",
        usage: "sluice export --organization <organization> [--resume] [<options>] [<file>]",
        discussion: """
            EXAMPLES
              sluice export --organization 0192f0c1-2345-7abc-8def-0123456789ab all.ndjson
              sluice export --organization 0192f0c1-2345-7abc-8def-0123456789ab \\
                --resume all.ndjson
              sluice export --organization 0192f0c1-2345-7abc-8def-0123456789ab \\
                --type contact | gzip > contacts.gz

            Use it to move an organization to another database, or to read its data with other programs. It does not \
            replace backups. Each line is {"entity_type", "id", "occurred_at", "document" or "deleted", "owner", \
            "private", "cursor"}, as `sluice import` reads it. "private": true marks an entity that is not visible to \
            the whole organization; an import rejects it if its type is visible to all. The file contains decrypted documents: protect it accordingly.

            An entity that changes during the export has several lines; the last one is valid. An entity that is \
            deleted during the export appears as deleted.

            --resume continues an interrupted export after its last complete line. If the export was complete, it \
            appends the changes made since. Use the same --type, --updated-since and --tombstones as before. After \
            `sluice after-restore`, or if retention has removed deletions since, start a new export.

            Prints the number of entities; with --json, as JSON. If the entities go to standard output, the number is \
            printed to standard error, or with --json not at all.
            """
                + HelpText.exitCodes([
                    0: "The export is complete.",
                    1: "The export failed, or lacks documents that cannot be decrypted; standard error has the "
                        + "reason.",
                    75: "Another process writes the file. Try again later.",
                ])
    )

    @Argument(
        help: "File, which must not exist unless --resume is given. Default, or -: standard output.",
        completion: .file(extensions: ["ndjson"])
    )
    var file: String?

    @OptionGroup var transfer: TransferOptions

    @Flag(help: "Also include entities that were deleted before the export.")
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
        /// The file cannot be used. The reason has been printed already.
        case refused(ExitCode)
    }

    /// Adds the file's name to a problem that prevents the export from continuing the file.
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
            // the file is changed only after it was recognized as an export
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
        let summary = TransferFormatting.summary(progress, seconds: seconds)
        guard !isToStandardOutput else {
            // with `--json`, there is no message for people
            if !options.json { Terminal.printError(summary) }
            return
        }
        options.output(summary) { writer in
            writer.member("organization_id", transfer.organization)
            writer.member("lines", progress.lines)
            writer.member("tombstones", progress.tombstones)
            writer.member("unreadable", progress.unreadable)
            writer.member("milliseconds", Int64(seconds * 1_000))
            writer.member("lines_a_second", TransferFormatting.rate(progress.lines, seconds))
        }
    }
}

// MARK: - OutputFile

/// The destination of lines: standard output, or a file that only its owner may read.
final class OutputFile {
    /// The maximum length of a file's last line, in bytes.
    private static let tailBytes: Int64 = 8_388_608

    private let descriptor: Int32
    private let name: String

    /// - Parameters:
    ///   - path: the file; nil or `-` for standard output.
    ///   - isContinued: if true, an existing file is continued after its last whole line. If false, the file must not
    ///     exist.
    init(_ path: String?, isContinued: Bool) throws {
        guard let path, path != "-" else {
            (descriptor, name) = (STDOUT_FILENO, "standard output")
            return
        }
        name = path
        descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | (isContinued ? 0 : O_EXCL), 0o600)
        guard descriptor >= 0 else {
            if errno == EEXIST { throw Terminal.failure("\(path) already exists; use --resume to continue it") }
            throw Terminal.failure("\(path) cannot be written: \(InputFile.lastError)")
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            throw Terminal.failure("\(path) is being written by another process", Terminal.tryAgain)
        }
        // an existing file may have permissions that let other users read it
        guard fchmod(descriptor, 0o600) == 0 else {
            throw Terminal.failure("the permissions of \(path) cannot be restricted: \(InputFile.lastError)")
        }
    }

    /// Opens a file for errors and replaces its content.
    ///
    /// - Parameter input: the file that the import reads. The file for errors must not be the same file under another
    ///   name.
    init(replacing path: String, excluding input: InputFile) throws {
        name = path
        descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Terminal.failure("\(path) cannot be written: \(InputFile.lastError)") }
        guard !input.isSame(as: descriptor) else {
            throw Terminal.failure("\(path) is the input; choose another for the errors", ExitCode.validationFailure)
        }
        // pipes and terminals have no length
        guard ftruncate(descriptor, 0) == 0 || errno == EINVAL else {
            throw Terminal.failure("\(path) cannot be written: \(InputFile.lastError)")
        }
    }

    deinit {
        if descriptor != STDOUT_FILENO { close(descriptor) }
    }

    /// Returns the last complete line and the position of its end. The line is nil for an empty file.
    ///
    /// - Parameter beginning: the beginning of every line of an export. If the file has no complete line, its content
    ///   must match this beginning.
    func lastLine(beginning: [UInt8]) throws -> (line: [UInt8]?, end: Int64) {
        let size = Int64(lseek(descriptor, 0, SEEK_END))
        let start = max(0, size - Self.tailBytes)
        let tail = try read(from: start, Int(size - start))
        guard let end = tail.lastIndex(of: 0x0a) else {
            guard start == 0 else { throw Terminal.failure("\(name) has no complete line near its end") }
            guard zip(tail, beginning).allSatisfy(==) else {
                throw Terminal.failure("\(name) is not an interrupted export; it is unchanged")
            }
            return (nil, 0)
        }
        let begin = tail[..<end].lastIndex(of: 0x0a).map { $0 + 1 }
        guard let begin = begin ?? (start == 0 ? 0 : nil) else {
            throw Terminal.failure("\(name) has no complete line near its end")
        }
        return (Array(tail[begin..<end]), start + Int64(end) + 1)
    }

    private func read(from start: Int64, _ count: Int) throws -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            let missing = count - bytes.count
            let place = off_t(start) + off_t(bytes.count)
            var got = 0
            bytes += [UInt8](unsafeUninitializedCapacity: missing) { buffer, filled in
                got = pread(descriptor, buffer.baseAddress, missing, place)
                filled = max(0, got)
            }
            if got == 0 { break }
            if got < 0, errno != EINTR { throw Terminal.failure("\(name) cannot be read: \(InputFile.lastError)") }
        }
        return bytes
    }

    /// Removes everything after an offset. The export continues at this offset.
    func cut(at size: Int64) throws {
        guard ftruncate(descriptor, off_t(size)) == 0, lseek(descriptor, 0, SEEK_END) >= 0 else {
            throw Terminal.failure("\(name) cannot be written: \(InputFile.lastError)")
        }
    }

    func write(_ bytes: [UInt8]) throws(FileFailure) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let written = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if written > 0 {
                rest = rest.dropFirst(written)
            } else if errno != EINTR, errno != EAGAIN {
                throw FileFailure("\(name) cannot be written: \(InputFile.lastError)")
            }
        }
    }

    /// Waits until the file's content is on disk.
    func finish() throws(FileFailure) {
        guard descriptor != STDOUT_FILENO else { return }
        guard fsync(descriptor) == 0 || errno == EINVAL || errno == EROFS else {
            throw FileFailure("\(name) cannot be written: \(InputFile.lastError)")
        }
    }
}
