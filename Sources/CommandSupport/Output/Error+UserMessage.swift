import Postgres
import SyncModel

extension Error {
    /// For people: the message, without the error's type.
    package var userMessage: String {
        switch self {
        case let error as PostgresError: error.userMessage
        case let problem as Problem: problem.detail
        default: "\(self)"
        }
    }
}
