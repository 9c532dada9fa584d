import CommandSupport
import JSONText
import SyncModel

/// Reports refused lines: the first ones on standard error, all of them in a file.
final class RefusedLines {
    /// Lines that standard error shows.
    static let shown = 20

    private let file: OutputFile?
    private let progress: TransferProgress
    private var count = 0
    /// Why the file could not be written.
    private(set) var failure: FileFailure?

    init(_ file: OutputFile?, _ progress: TransferProgress) {
        self.file = file
        self.progress = progress
    }

    func record(_ refusal: EntityImport.Refusal) {
        count += 1
        if count <= Self.shown {
            progress.clear()
            for userMessage in Self.userMessage(refusal) { Terminal.printError(userMessage) }
        } else if count == Self.shown + 1 {
            progress.clear()
            Terminal.printError(
                file == nil ? "more lines were rejected; --errors FILE lists all" : "the file of errors lists more"
            )
        }
        do throws(FileFailure) { try file?.write(Self.line(refusal)) } catch { failure = failure ?? error }
    }

    static func userMessage(_ refusal: EntityImport.Refusal) -> [String] {
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
