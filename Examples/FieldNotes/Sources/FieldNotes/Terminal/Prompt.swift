import Foundation
import SluiceClient

/// The last line of the terminal: whose phone it is, and how synchronization stands.
struct Prompt {
    let name: String
    private var shown = ""
    /// Where nobody reads along, a prompt would only be in the way.
    private let isWanted = isatty(STDOUT_FILENO) == 1

    init(name: String) { self.name = name }

    /// Prints something above the prompt.
    mutating func say(_ text: String, _ status: SyncStatus) {
        clear()
        if !text.isEmpty { Terminal.write(text + "\n") }
        show(status)
    }

    /// Somebody has pressed return behind it.
    mutating func isTyped() { shown = "" }

    mutating func show(_ status: SyncStatus) {
        // a push or pull is over before anybody could read it
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
