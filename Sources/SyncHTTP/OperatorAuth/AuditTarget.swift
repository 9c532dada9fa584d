package import Foundation
import SyncModel

/// The target of an act as far as the request's query specifies it; the path is recorded in any case.
package struct AuditTarget: Sendable {
    /// Reads the target before the act, for the act's row; throws for an invalid query, which the endpoint refuses.
    package typealias Reading = @Sendable (Exchange) throws -> AuditTarget

    /// Separate from the names, since an erasure searches for it.
    package var user: UUID?
    package var names: [(name: String, value: String)] = []

    package init(user: UUID? = nil, names: [(name: String, value: String)] = []) {
        self.user = user
        self.names = names
    }
}
