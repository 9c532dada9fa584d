import CommandSupport
import Glibc
import SyncModel

/// Reports a transfer's progress on standard error: as a bar on a terminal, otherwise as a line at intervals.
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

    /// Removes the bar, so that its line can be used for text.
    func clear() {
        guard hasBar else { return }
        hasBar = false
        Terminal.draw("\r\u{1b}[K")
    }
}
