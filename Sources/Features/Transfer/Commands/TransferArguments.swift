import ArgumentParser
import CommandSupport
import FoundationEssentials
import Glibc
import SyncModel

/// Reports a transfer's progress on standard error. On a terminal it draws a bar; otherwise it prints a line at
/// intervals.
final class TransferProgress {
    private let isTerminal: Bool
    private let isShown: Bool
    private let due: Throttle
    private let start = ContinuousClock.now
    private var hasBar = false

    /// - Parameter isShown: whether progress is reported at all.
    init(isShown: Bool) {
        self.isShown = isShown
        isTerminal = isatty(STDERR_FILENO) == 1
        due = Throttle(isTerminal ? .milliseconds(200) : .seconds(5))
    }

    var seconds: Double { (.now - start) / .seconds(1) }

    func show(share: Double?, lines: Int) {
        guard isShown, due.isDue() else { return }
        guard isTerminal else {
            return Terminal.printError(TransferFormatting.progress(share: share, lines: lines, seconds: seconds))
        }
        hasBar = true
        Terminal.draw("\r\u{1b}[K" + TransferFormatting.bar(share: share, lines: lines, seconds: seconds))
    }

    /// Removes the bar, so that text can be printed in its place.
    func clear() {
        guard hasBar else { return }
        hasBar = false
        Terminal.draw("\r\u{1b}[K")
    }
}

/// The progress texts of imports and exports.
enum TransferFormatting {
    /// `[##########··········]  50 %  412000 lines, 3121 a second, 2 min left`
    ///
    /// - Parameter share: the completed share, 0 to 1; nil if it is unknown.
    static func bar(share: Double?, lines: Int, seconds: Double, width: Int = 24) -> String {
        guard let share else { return progress(share: nil, lines: lines, seconds: seconds) }
        let full = Int(Double(width) * clamped(share))
        let bar = String(repeating: "#", count: full) + String(repeating: "·", count: width - full)
        return "[\(bar)] \(progress(share: share, lines: lines, seconds: seconds))"
    }

    /// `50 %  412000 lines, 3121 a second, 2 min left`
    static func progress(share: Double?, lines: Int, seconds: Double) -> String {
        let speed = "\(lines) lines, \(rate(lines, seconds)) per second"
        guard let share else { return speed }
        let done = clamped(share)
        let percent = String(Int(done * 100))
        let left = done > 0.01 && done < 1 ? ", \(duration(seconds / done * (1 - done))) left" : ""
        return String(repeating: " ", count: max(0, 3 - percent.count)) + "\(percent) %  \(speed)\(left)"
    }

    static func summary(_ report: EntityImport.Report, seconds: Double, isDryRun: Bool) -> String {
        let time = "\(report.lines) lines in \(duration(seconds)), \(rate(report.lines, seconds)) per second"
        let leftOut = report.leftOut > 0 ? ", \(report.leftOut) omitted" : ""
        if isDryRun {
            return "\(report.applied) valid, \(report.refused) rejected\(leftOut); \(time); nothing was written"
        }
        var summary = "\(report.applied) applied, \(report.stale) stale, \(report.duplicates) duplicates"
        if report.echoes > 0 { summary += ", \(report.echoes) echoes" }
        if report.parked > 0 { summary += ", \(report.parked) waiting for the upstream" }
        return summary + ", \(report.refused) rejected\(leftOut); \(time)"
    }

    static func summary(_ progress: EntityExport.Progress, seconds: Double) -> String {
        let deleted = progress.tombstones > 0 ? ", \(progress.tombstones) of them deleted" : ""
        let speed = "\(rate(progress.lines, seconds)) per second"
        return "\(progress.lines) entities\(deleted), in \(duration(seconds)), \(speed)"
    }

    static func rate(_ lines: Int, _ seconds: Double) -> Int {
        seconds > 0 ? Int(min(Double(lines) / seconds, 1e12)) : 0
    }

    static func duration(_ seconds: Double) -> String {
        seconds < 120
            ? "\(Int(seconds.rounded())) s"
            : seconds < 7_200 ? "\(Int((seconds / 60).rounded())) min" : "\(Int((seconds / 3_600).rounded())) h"
    }

    private static func clamped(_ share: Double) -> Double { min(max(share, 0), 1) }
}

/// The options that select the entities of an import or an export and set its pace.
struct TransferOptions: ParsableArguments {
    @Option(help: .organization, transform: uuidArgument)
    var organization: UUID

    @Option(help: ArgumentHelp("Only entities of this type. Can be repeated.", valueName: "name"))
    var type: [String] = []

    @Option(
        help: ArgumentHelp(
            "Only entities changed at or after this time (RFC 3339) or date.",
            valueName: "time"
        ),
        transform: momentArgument
    )
    var updatedSince: Timestamp?

    @Option(
        help: ArgumentHelp(
            "Lines per second, regardless of the database's load. Default: depends on the load.",
            valueName: "number"
        )
    )
    var rate: Int?

    func validate() throws {
        for name in type where !EntityType.isValidName(name) {
            throw ValidationError("--type must be the name of an entity type, such as contact.")
        }
        guard rate.map({ $0 >= 1 }) ?? true else { throw ValidationError("--rate must be 1 or more.") }
    }
}
