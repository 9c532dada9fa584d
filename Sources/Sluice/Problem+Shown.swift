import SyncModel

extension Problem {
    /// What was wrong, each with its place in what was given, as a terminal may show it; empty where no place is known.
    var shownErrors: [String] {
        errors.map { ($0.pointer.isEmpty ? "" : ShownText.of($0.pointer) + ": ") + ShownText.of($0.detail) }
    }
}
