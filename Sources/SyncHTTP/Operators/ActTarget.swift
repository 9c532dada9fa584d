import Foundation
import SyncModel

/// What a request's query says of whom and what an act is about; its path is told anyway.
struct ActTarget: Sendable {
    /// Reads it before the act, for the act's row; throws for a query that is none, which the endpoint refuses.
    typealias Reading = @Sendable (Exchange) throws(Problem) -> ActTarget

    /// Apart from the names, since an erasure looks for it.
    var user: UUID?
    var names: [(name: String, value: String)] = []
}
