package import Postgres

// The rows that a group of pushes writes in addition to mutations.

extension MappingName {
    package static let columns = Columns<MappingName>(
        .lane(\.lane),
        .uuid("client_id", \.clientID),
        .text("entity_type", \.entityType)
    )
}
