import CLibPQ
import Glibc

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
            let message = LibPQConnection.oneLine(text)
            return PostgresError(.connectionLost, message, statement: statement, statementIndex: index)
        }
        let message = field("M") ?? ""
        let kind = PostgresError.Kind.server(sqlState: sqlState)
        return PostgresError(kind, message, statement: statement, statementIndex: index)
    }

    /// Whether a notice, received with a COMMIT, means that the commit was not replicated.
    ///
    /// If a time-out or a cancel request ends the wait for a synchronous standby, PostgreSQL commits locally and sends
    /// a warning with SQLSTATE 01000. Its text depends on the server's language, so only severity and SQLSTATE count.
    /// If the session is ended instead, the connection is lost before the commit is answered.
    static func isCommitWarning(_ notice: OpaquePointer) -> Bool {
        func has(_ code: Unicode.Scalar, _ value: String) -> Bool {
            PQresultErrorField(notice, Int32(code.value)).map { strcmp($0, value) == 0 } ?? false
        }
        return has("V", "WARNING") && has("C", "01000")
    }

    /// A field by the letter that libpq's macros (`PG_DIAG_SQLSTATE`, `PG_DIAG_MESSAGE_PRIMARY`) stand for; Swift does
    /// not import them.
    private func field(_ code: Unicode.Scalar) -> String? {
        PQresultErrorField(pointer, Int32(code.value)).map { String(cString: $0) }
    }
}

extension ResultHandle {
    /// Whether COPY in both directions begins.
    var isCopyBoth: Bool { PQresultStatus(pointer) == PGRES_COPY_BOTH }
}
