import JSONText
package import Postgres
package import SyncModel

/// Reads an ``EntityType``.
package enum EntityTypeRow {
    /// For a table that is called `t`.
    package static let list =
        "t.name, t.id_space, t.visibility, t.default_priority, t.is_forwarded, t.is_in_use, t.relations, t.on_erase"

    /// Reads the columns of ``list``.
    ///
    /// The id spaces that its relations lead to are not known here.
    package static func read(_ row: inout RowReader) throws -> EntityType {
        var type = EntityType(
            name: try row.string("name"),
            idSpace: IDSpace(rawValue: try row.string("id_space")) ?? .mapped,
            visibility: Visibility(rawValue: try row.string("visibility")) ?? .user,
            defaultPriority: try row.int16("default_priority"),
            isForwarded: try row.bool("is_forwarded"),
            isInUse: try row.bool("is_in_use")
        )
        type.relations = EntityType.relations(stored: try JSONTree(parsing: row.bytes("relations")).root)
        type.onErase = OnErase(rawValue: try row.string("on_erase")) ?? .delete
        return type
    }
}
