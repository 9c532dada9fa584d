import SyncModel

extension Problem {
    /// The errors, each with its place in the input, made safe for a terminal; empty if no place is known.
    package var shownErrors: [String] {
        errors.map { ($0.pointer.isEmpty ? "" : TerminalText.of($0.pointer) + ": ") + TerminalText.of($0.detail) }
    }
}
