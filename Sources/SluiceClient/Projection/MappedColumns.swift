import Foundation
import GRDB

/// The mapping with which the app's tables were last written: the columns, and the places in them that contain ids.
///
/// A new version of the app may map an additional column. This column is empty in every row, although the server's
/// documents may contain the member. An update would treat the empty column as the user's edit. For this reason, all
/// rows are first written again from the library's data. If the server's document does not contain the member, the
/// column keeps the app's value.
///
/// If the new version declares other references, ids that were treated as data before are translated. Everything is
/// also pulled again, because values that were translated as ids before may be data now.
struct MappedColumns {
    private let map: EntityMap

    init(_ map: EntityMap) { self.map = map }

    /// The mapped columns and members of each entity type, and the references among them.
    private var current: JSON {
        .object(
            Dictionary(
                uniqueKeysWithValues: map.entities.map { entity in
                    let columns = entity.columns.map { JSON.string("\($0.name) \($0.member)") }
                    let references = entity.references.map(JSON.string)
                    return (entity.entityType, ["columns": .array(columns), "references": .array(references)])
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
            let identities = Identities(map, db, now: now)
            let rows = Projection(map, identities, db)
            for entity in map.entities where before?[entity.entityType] != current[entity.entityType] {
                let references = before?[entity.entityType]?["references"]?.array?.compactMap(\.string)
                let isTranslated = references.map { $0 == entity.references } ?? true
                let keys = try String.fetchAll(
                    db,
                    sql: "SELECT key FROM sluice_base WHERE entity_type = ?",
                    arguments: [entity.entityType]
                )
                let known = Set((before?[entity.entityType]?["columns"]?.array ?? []).compactMap(\.string))
                let added = entity.columns.filter { !known.contains("\($0.name) \($0.member)") }
                for key in keys {
                    if let references, !isTranslated {
                        try translate(EntityName(entity.entityType, key), entity, references, identities, db)
                    }
                    try rows.refresh(entity, key, keeping: before == nil ? [] : added)
                }
                if !isTranslated { try Feed.startOver(Feed.Filter(""), db, now: now) }
            }
            try db.execute(sql: "UPDATE sluice_device SET mapped_columns = ?", arguments: [current.text])
        }
    }

    /// Translates ids to the phone's keys in those places where the app's previous version treated the ids as data.
    private func translate(
        _ name: EntityName,
        _ entity: EntitySync,
        _ known: [String],
        _ identities: Identities,
        _ db: Database
    ) throws {
        guard var base = try ServerSnapshot.of(name, db), let document = base.document else { return }
        base.document = try entity.replacingIDs(in: document, where: { !known.contains(entity.text(of: $0, $1)) }) {
            type,
            id in
            let target = try map.entity(type)
            // the device's local ids are unknown until the next pull returns them
            guard target.idSpace != .device else { return .null }
            return target.key.json(of: try identities.key(of: target, serverID: id))
        }
        try base.save(name, db)
    }
}

extension EntitySync {
    /// The places in documents that contain ids, with the types of the ids.
    fileprivate var references: [String] {
        columns.flatMap { column in column.references.map { text(of: column, $0) } }
    }

    fileprivate func text(of column: SyncedColumn, _ path: ReferencePath) -> String {
        "\(([column.member] + path.steps).joined(separator: "/")) \(path.entityType)"
    }
}
