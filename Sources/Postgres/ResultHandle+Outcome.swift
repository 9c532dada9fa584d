import CLibPQ

extension ResultHandle {
    var outcome: PipelineProgress.Outcome {
        switch PQresultStatus(pointer) {
        case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_EMPTY_QUERY: .success
        case PGRES_FATAL_ERROR, PGRES_BAD_RESPONSE: .failure
        case PGRES_PIPELINE_ABORTED: .aborted
        case PGRES_PIPELINE_SYNC: .sync
        default: .unexpected
        }
    }

    /// The error in a result of outcome `failure`.
    ///
    /// Without a SQLSTATE it does not come from the server: the connection is lost. The detail is left out, as it may
    /// quote whole rows.
    func error(statement: String?, index: Int?) -> PostgresError {
        guard let sqlState = field("C") else {
            let text = PQresultErrorMessage(pointer).map { String(cString: $0) } ?? ""
            let message = Handle.oneLine(text)
            return PostgresError(.connectionLost, message, statement: statement, statementIndex: index)
        }
        let message = field("M") ?? ""
        let kind = PostgresError.Kind.server(sqlState: sqlState)
        return PostgresError(kind, message, statement: statement, statementIndex: index)
    }

    /// A field by the letter of libpq's macros, which Swift does not import.
    ///
    /// Examples of macros are `PG_DIAG_SQLSTATE` and `PG_DIAG_MESSAGE_PRIMARY`.
    private func field(_ code: Unicode.Scalar) -> String? {
        PQresultErrorField(pointer, Int32(code.value)).map { String(cString: $0) }
    }
}

extension ResultHandle {
    /// Whether COPY in both directions begins.
    var isCopyBoth: Bool { PQresultStatus(pointer) == PGRES_COPY_BOTH }
}
