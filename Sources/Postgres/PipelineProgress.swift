/// Follows the results of one pipeline: the statement to which each result belongs, the first failure, and the end.
///
/// For each command, libpq returns a result (or PIPELINE_ABORTED after an error), followed by a null result. For the
/// Sync, it returns only PIPELINE_SYNC. This type receives the outcome of each result instead of the result itself, and
/// has no side effects.
struct PipelineProgress {
    /// A command that was sent.
    enum Step: Equatable {
        case prepare(Int)
        case execute(Int)

        var statement: Int {
            switch self {
            case .prepare(let index), .execute(let index): index
            }
        }
    }

    enum Outcome {
        case success
        case failure
        case aborted
        /// The end of a command's results.
        case end
        case sync
        /// A result that no pipeline can have, such as a result of COPY.
        case unexpected
    }

    enum Action: Equatable {
        case ignore
        /// The statement at this index is now prepared.
        case prepared(Int)
        /// The result belongs to the statement at this index.
        case keep(Int)
        /// The statement at this index has failed. It is the first failure in the pipeline.
        case fail(Int)
        case finish
        /// The connection is out of sync and cannot be used further.
        case abandon
    }

    private let steps: [Step]
    private var current = 0
    private var isAnswered = false
    /// The index of the statement to which the last result belongs.
    private(set) var latest: Int?
    private var hasFailed = false

    init(_ steps: [Step]) {
        self.steps = steps
    }

    mutating func received(_ outcome: Outcome) -> Action {
        switch outcome {
        case .sync:
            return current == steps.count ? .finish : .abandon
        case .end:
            // A null result ends a command only after a result of that command.
            if isAnswered { current += 1 }
            isAnswered = false
            return .ignore
        case .unexpected:
            return .abandon
        case .success, .failure, .aborted:
            guard current < steps.count else { return .abandon }
            isAnswered = true
            latest = steps[current].statement
            return outcome == .aborted ? .ignore : outcome == .failure ? failure() : success()
        }
    }

    private func success() -> Action {
        switch steps[current] {
        case .prepare(let index): .prepared(index)
        case .execute(let index): .keep(index)
        }
    }

    private mutating func failure() -> Action {
        defer { hasFailed = true }
        return hasFailed ? .ignore : .fail(steps[current].statement)
    }
}

// MARK: - GuardedPipeline

/// A pipeline with the statements of a ``Dialect/TransactionGuard`` in its transactions.
struct GuardedPipeline {
    private(set) var queries: [Query] = []
    /// For each query in ``queries``, the index of the original query; nil for added queries.
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
            // a failed verification is reported as a serialization failure
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

// MARK: - PipelineResults

/// Collects the results of one pipeline.
struct PipelineResults {
    let queries: [Query]
    var error: PostgresError?
    private var progress: PipelineProgress
    private var results: [Rows] = []
    /// Whether the server warned that a commit was not replicated.
    private var isUnreplicated = false

    init(queries: [Query], progress: PipelineProgress) {
        self.queries = queries
        self.progress = progress
        results.reserveCapacity(queries.count)
    }

    /// Processes libpq's next result; `nil` marks the end of a command's results.
    mutating func receive(_ result: ResultHandle?) -> PipelineProgress.Action {
        let action = progress.received(result?.outcome ?? .end)
        guard let result else { return action }
        switch action {
        case .keep(let index):
            let statement = queries[index].statement
            // A COMMIT of a failed transaction succeeds with this tag.
            if statement.name == Query.commit.statement.name, result.tag == "ROLLBACK", error == nil {
                let message = "the transaction had failed, so COMMIT rolled it back"
                let kind = PostgresError.Kind.server(sqlState: "25P02")
                error = PostgresError(kind, message, statement: statement.name, statementIndex: index)
            }
            results.append(Rows(handle: result, statement: statement.name))
        case .fail(let index):
            if error == nil { error = result.error(statement: queries[index].statement.name, index: index) }
        case .ignore, .prepared, .finish, .abandon:
            break
        }
        return action
    }

    /// Records a warning that a commit was not replicated. A warning after any statement other than a COMMIT or the
    /// last statement is ignored, because it does not concern a commit.
    mutating func warn() {
        guard let latest = progress.latest else { return }
        let isCommit = queries[latest].statement.name == Query.commit.statement.name
        if isCommit || latest == queries.count - 1 { isUnreplicated = true }
    }

    /// The error to report for a session that was lost before all results had arrived; nil if only the loss itself is
    /// to be reported.
    func broken() -> PostgresError? { error ?? (isUnreplicated ? .unreplicated : nil) }

    /// Whether prepared statements can no longer be used: a schema change altered the columns of a result, or the
    /// statements no longer exist.
    var needsFreshConnection: Bool { error?.sqlState == "0A000" || error?.sqlState == "26000" }

    /// Returns the outcome after all results have arrived.
    ///
    /// - Parameter interruption: the reason why the client requested to cancel the statement; nil if the client did not
    ///   request it. Results that arrived before the cancellation are valid.
    func outcome(interruption: PostgresError.Kind?) -> Job.Outcome {
        if let error { return .failure(error.interpreted(interruption)) }
        guard results.count == queries.count else {
            return .failure(PostgresError(.connectionLost, "\(results.count) results for \(queries.count) queries"))
        }
        if isUnreplicated { return .failure(.unreplicated) }
        return .success(results)
    }
}

extension PostgresError {
    static let unreplicated = PostgresError(
        .unreplicated,
        "the wait for a synchronous standby was cancelled: committed on this server, perhaps on no other"
    )

    /// Replaces the code 57014, which the server reports for every cancelled statement, by the reason.
    ///
    /// If the client did not request to cancel the statement, the reason is the server's time-out.
    func interpreted(_ interruption: Kind?) -> PostgresError {
        guard sqlState == "57014" else { return self }
        return PostgresError(interruption ?? .timedOut, message, statement: statement, statementIndex: statementIndex)
    }
}
