import Postgres
import SyncModel

struct MappingRow {
    let lane: LaneKey
    let changePosition: Int64
    let new: NewMapping

    static let columns = Columns<MappingRow>(
        .lane(\.lane),
        .uuid("client_id", \.new.mapping.clientID),
        .text("entity_type", \.new.mapping.entityType),
        .serverID(\.new.mapping.serverID),
        .choice("status", \.new.mapping.status),
        .uuid("mutation_id", \.new.mapping.mutationID),
        .int8("change_position", \.changePosition),
        .moment("created_at", \.new.createdAt)
    )
}
