import Postgres
import SyncModel

/// A row of ``GroupStatements/mappings`` about one client id.
struct FoundMapping {
    /// The place of the asking push in the group.
    let push: Int
    let mapping: IDMapping
    /// When its use was last recorded; nil if never.
    let usedAt: Timestamp?

    init(_ row: inout RowReader) throws {
        push = try row.push()
        let clientID = try row.uuid("client_id")
        mapping = IDMapping(
            entityType: try row.string("entity_type"),
            client: .id(clientID),
            serverID: try row.serverID(),
            status: try row.choice("status"),
            mutationID: try row.uuid("mutation_id"),
            isAbandoned: try row.bool("is_abandoned")
        )
        usedAt = try row.optionalMoment("last_used_at")
    }
}
