/// A pipeline with the statements of a ``Dialect/Vigil`` around its transactions.
struct GuardedPipeline {
    private(set) var queries: [Query] = []
    /// By place in ``queries``: the place of the original query; nil for added ones.
    private var places: [Int?] = []
    private let transactionGuard: Dialect.TransactionGuard

    init(_ asked: [Query], by transactionGuard: Dialect.TransactionGuard) {
        self.transactionGuard = transactionGuard
        for (place, query) in asked.enumerated() {
            if query.statement == Query.commit.statement { add(Query(transactionGuard.verify), nil) }
            add(query, place)
            if query.statement == Query.begin.statement { add(Query(transactionGuard.before), nil) }
        }
    }

    private mutating func add(_ query: Query, _ place: Int?) {
        queries.append(query)
        places.append(place)
    }

    /// The outcome of the original queries.
    func outcome(_ outcome: Job.Outcome) -> Job.Outcome {
        switch outcome {
        case .success(let results):
            return .success(zip(places, results).compactMap { $0 == nil ? nil : $1 })
        case .failure(let error):
            guard let index = error.statementIndex, places.indices.contains(index) else { return outcome }
            // the server's own message for a transaction that cannot be serialized with another
            let hasChanged = error.sqlState == "22012" && error.statement == transactionGuard.verify.name
            return .failure(
                PostgresError(
                    hasChanged ? .server(sqlState: "40001") : error.kind,
                    error.message,
                    statement: error.statement,
                    statementIndex: places[index]
                )
            )
        }
    }
}
