import Foundation
import SluiceClient

/// The last line of the terminal: the phone's owner and the state of synchronization.
struct Prompt {
    let name: String
    private var shown = ""
    /// Without a terminal on standard output, a prompt would only clutter the output.
    private let isWanted = isatty(STDOUT_FILENO) == 1

    init(name: String) { self.name = name }

    /// Prints something above the prompt.
    mutating func say(_ text: String, _ status: SyncStatus) {
        clear()
        if !text.isEmpty { Terminal.write(text + "\n") }
        show(status)
    }

    /// Notes that the user has pressed return after the prompt.
    mutating func isTyped() { shown = "" }

    mutating func show(_ status: SyncStatus) {
        // a push or pull ends before the user could read it
        guard isWanted, status.phase != .pushing, status.phase != .pulling else { return }
        let text = "\(name) (\(status.short))> "
        guard text != shown else { return }
        clear()
        shown = text
        Terminal.write(text)
    }

    private mutating func clear() {
        if !shown.isEmpty { Terminal.write("\r\u{1B}[K") }
        shown = ""
    }
}
