import Postgres
import SyncModel

extension Error {
    /// For people: the message, without the error's type.
    package var words: String {
        switch self {
        case let error as PostgresError: error.words
        case let problem as Problem: problem.detail
        default: "\(self)"
        }
    }
}
