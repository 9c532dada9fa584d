public enum MigratorError: Error, Sendable, Equatable, CustomStringConvertible {
    case duplicate(String)
    /// The text of an applied migration differs from the one that was applied.
    case changed(String)
    /// A pending migration comes before one that has been applied.
    case gap(pending: String, applied: String)
    /// An applied migration is missing from this build, which knows later ones.
    case missing(String)
    /// The migration ended the transaction it runs in.
    case endedTransaction(String)
    /// A migration failed; nothing of it remains.
    case failed(String, PostgresError)

    public var description: String {
        switch self {
        case .duplicate(let name): "two migrations are named \(name)"
        case .changed(let name): "migration \(name) was changed after it had been applied"
        case .gap(let pending, let applied): "migration \(pending) is pending, but \(applied) has been applied"
        case .missing(let name): "migration \(name) has been applied, but this build does not know it"
        case .endedTransaction(let name): "migration \(name) ends the transaction it runs in"
        case .failed(let name, let error): "migration \(name) failed: \(error.userMessage)"
        }
    }
}
