import Postgres
import Synchronization

/// The cluster's forms of queries. Each text is made once.
final class RewriteCache: Sendable {
    private struct Made {
        var ofRows: Statement
        /// The same where one row does not make another text.
        var ofOneRow: Statement
    }

    /// By name.
    private let made = Mutex<[String: Made]>([:])

    func of(_ query: Query) -> Query {
        let query = query.alternative?() ?? query
        let made = made(of: query.statement)
        return Query(query.isOfOneRow ? made.ofOneRow : made.ofRows, query.parameters)
    }

    private func made(of statement: Statement) -> Made {
        if let known = made.withLock({ $0[statement.name] }) { return known }
        let text = CitusSQLRewriter(statement)
        let ofRows = Statement(statement.name, text.ofRows)
        let new = Made(
            ofRows: ofRows,
            ofOneRow: text.ofOneRow.map { Statement(statement.name + "_of_one", $0) } ?? ofRows
        )
        // a statement without a name is translated each time
        if !statement.name.isEmpty { made.withLock { $0[statement.name] = new } }
        return new
    }
}
