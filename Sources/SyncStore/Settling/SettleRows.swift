package import Postgres
package import SyncModel

// The rows that settling writes of one lane, behind the parameters that all of it shares: organization and user, the
// change position and the moment.

extension MappingChange {
    package static let columns = Columns<MappingChange>(
        .uuid("client_id", \.clientID),
        .text("entity_type", \.entityType),
        .uuid("mutation_id", \.mutationID),
        .choice("status", \.status),
        .serverID(\.serverID),
        .text("last_error", \.lastError)
    )

    /// Frees a local id.
    static let freeing = Columns<MappingChange>(
        .uuid("client_id", \.clientID),
        .uuid("mutation_id", \.mutationID)
    )
}
