/// Gathers the results of one pipeline.
struct PipelineResults {
    let queries: [Query]
    var error: PostgresError?
    private var progress: PipelineProgress
    private var results: [Rows] = []
    /// Whether a commit was reported as not replicated.
    private var isUnreplicated = false

    init(queries: [Query], progress: PipelineProgress) {
        self.queries = queries
        self.progress = progress
        results.reserveCapacity(queries.count)
    }

    /// Takes libpq's next result; `nil` for the end of a command's.
    mutating func receive(_ result: ResultHandle?) -> PipelineProgress.Action {
        let action = progress.received(result?.outcome ?? .end)
        guard let result else { return action }
        switch action {
        case .keep(let index):
            let statement = queries[index].statement
            // A COMMIT of a transaction that had failed answers success, with this tag.
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

    /// Records a warning about a commit. One that arrived with an earlier statement concerns no commit.
    mutating func warn() {
        guard let latest = progress.latest else { return }
        let isCommit = queries[latest].statement.name == Query.commit.statement.name
        if isCommit || latest == queries.count - 1 { isUnreplicated = true }
    }

    /// The error of a session that was lost before all results had arrived; nil if only the session is known to be
    /// lost.
    func broken() -> PostgresError? { error ?? (isUnreplicated ? .unreplicated : nil) }

    /// Whether prepared statements no longer fit: a changed schema altered a result's columns, or they are gone.
    var needsFreshConnection: Bool { error?.sqlState == "0A000" || error?.sqlState == "26000" }

    /// The answer once all results are in.
    ///
    /// `interruption` is why the statement was cancelled, if it was; results that came before are good.
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

    /// The server says 57014 for every cancelled statement; only this side knows the reason. Without a request of ours
    /// it is the server's own time-out.
    func interpreted(_ interruption: Kind?) -> PostgresError {
        guard sqlState == "57014" else { return self }
        return PostgresError(interruption ?? .timedOut, message, statement: statement, statementIndex: statementIndex)
    }
}
