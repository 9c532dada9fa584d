import Glibc
import SyncModel

/// Says on standard error how far a transfer is: by a bar on a terminal, elsewhere by a line now and then.
final class TransferProgress {
    private let isTerminal: Bool
    private let isShown: Bool
    private let due: Throttle
    private let start = ContinuousClock.now
    private var hasBar = false

    /// - Parameter isShown: whether anything is said at all.
    init(isShown: Bool) {
        self.isShown = isShown
        isTerminal = isatty(STDERR_FILENO) == 1
        due = Throttle(isTerminal ? .milliseconds(200) : .seconds(5))
    }

    var seconds: Double { (.now - start) / .seconds(1) }

    func show(share: Double?, lines: Int) {
        guard isShown, due.isDue() else { return }
        guard isTerminal else {
            return Terminal.complain(TransferWords.progress(share: share, lines: lines, seconds: seconds))
        }
        hasBar = true
        Terminal.draw("\r\u{1b}[K" + TransferWords.bar(share: share, lines: lines, seconds: seconds))
    }

    /// Takes the bar away, so that a line can stand there.
    func clear() {
        guard hasBar else { return }
        hasBar = false
        Terminal.draw("\r\u{1b}[K")
    }
}
