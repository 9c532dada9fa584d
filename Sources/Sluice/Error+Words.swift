import Postgres
import SyncModel

extension Error {
    /// For people: what was said, without how a program holds it.
    var words: String {
        switch self {
        case let error as PostgresError: error.words
        case let problem as Problem: problem.detail
        default: "\(self)"
        }
    }
}
