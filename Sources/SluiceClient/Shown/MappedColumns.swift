import Foundation
import GRDB

/// Which columns the app's tables were last written with.
///
/// A version of the app that maps a column more has it empty in every row, though the server's documents may have the
/// member: an update would take the empty column for the user's wish. So rows are written anew, from what the library
/// keeps, before anything else is done with them.
struct MappedColumns {
    private let map: EntityMap

    init(_ map: EntityMap) { self.map = map }

    /// By entity type, the mapped columns and members.
    private var current: JSON {
        .object(
            Dictionary(
                uniqueKeysWithValues: map.entities.map { entity in
                    (entity.entityType, .array(entity.columns.map { .string("\($0.name) \($0.member)") }))
                }
            )
        )
    }

    func adopt(_ database: any DatabaseWriter, now: Date) throws {
        let current = current
        let known = try database.read { db in
            try String.fetchOne(db, sql: "SELECT mapped_columns FROM sluice_device")
        }
        guard known != current.text else { return }
        let before = try known.map { try JSON(parsing: $0) }
        try database.write { db in
            _ = try Device.id(db)
            let rows = ShownRows(map, Identities(map, db, now: now), db)
            for entity in map.entities where before?[entity.entityType] != current[entity.entityType] {
                let keys = try String.fetchAll(
                    db,
                    sql: "SELECT key FROM sluice_base WHERE entity_type = ?",
                    arguments: [entity.entityType]
                )
                for key in keys { try rows.refresh(entity, key) }
            }
            try db.execute(sql: "UPDATE sluice_device SET mapped_columns = ?", arguments: [current.text])
        }
    }
}
