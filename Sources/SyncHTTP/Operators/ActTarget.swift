package import Foundation
import SyncModel

/// What a request's query says of whom and what an act is about; its path is told anyway.
package struct ActTarget: Sendable {
    /// Reads it before the act, for the act's row; throws for a query that is none, which the endpoint refuses.
    package typealias Reading = @Sendable (Exchange) throws -> ActTarget

    /// Apart from the names, since an erasure looks for it.
    package var user: UUID?
    package var names: [(name: String, value: String)] = []

    package init(user: UUID? = nil, names: [(name: String, value: String)] = []) {
        self.user = user
        self.names = names
    }
}
