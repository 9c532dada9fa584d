import Foundation
import GRDB

/// The counters of types with local ids. They are SQLite's counters for `AUTOINCREMENT` keys.
struct DeviceNumbers {
    private let map: EntityMap
    private let db: Database

    init(_ map: EntityMap, _ db: Database) {
        self.map = map
        self.db = db
    }

    private var entities: [EntitySync] { map.entities.filter { $0.idSpace == .device } }

    /// Returns the local id that the next row of each type gets.
    func next() throws -> NextLocalIDs {
        try entities.reduce(into: [:]) { numbers, entity in
            let highest = try Int64.fetchOne(
                db,
                sql: "SELECT seq FROM sqlite_sequence WHERE lower(name) = lower(?)",
                arguments: [entity.table]
            )
            // the counter stops at the highest possible local id, after which SQLite assigns no more local ids
            numbers[entity.entityType] = min(max(highest ?? 0, 0), .max - 1) + 1
        }
    }

    /// Advances each counter if necessary, so that the next row of the type gets at least the given local id.
    func raise(to numbers: NextLocalIDs) throws {
        for entity in entities {
            guard let next = numbers[entity.entityType], next > 1 else { continue }
            try db.execute(
                sql: "UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE lower(name) = lower(?)",
                arguments: [next - 1, entity.table]
            )
            if db.changesCount > 0 { continue }
            // SQLite stores the table's name in the case of its CREATE statement; the app may use any case
            try db.execute(
                sql: """
                    INSERT INTO sqlite_sequence (name, seq)
                    SELECT name, ? FROM sqlite_schema WHERE type = 'table' AND lower(name) = lower(?)
                    """,
                arguments: [next - 1, entity.table]
            )
        }
    }

    /// Records that the gateway's local ids for rows may differ from the keys of these rows on this phone.
    static func noteOthers(_ db: Database) throws {
        try db.execute(sql: "UPDATE sluice_device SET has_other_numbers = 1")
    }

    static func areOthers(_ db: Database) throws -> Bool {
        try Bool.fetchOne(db, sql: "SELECT has_other_numbers FROM sluice_device") ?? false
    }

    /// Returns whether this device has no local ids yet for entities with integer server ids. This is the case after
    /// the database was copied from another phone, until the pull from the beginning has returned the local ids. In a
    /// write, only a local id can identify such an entity.
    func areMissing() throws -> Bool {
        guard try Self.areOthers(db), try Feed.read(db).isSnapshot else { return false }
        return try entities.contains { entity in
            try Bool.fetchOne(
                db,
                sql: """
                    SELECT EXISTS (
                        SELECT 1 FROM sluice_id_mappings
                        WHERE entity_type = ? AND status = 'resolved' AND NOT \(NumberReplacement.isReplaceable))
                    """,
                arguments: [entity.entityType]
            ) ?? false
        }
    }

    /// Returns rows that were created after this phone was restored from a backup, and that may have local ids that the
    /// phone had already assigned before the restore.
    ///
    /// The response to the registration reveals the restore, because it contains a higher local id than the device's
    /// counter. Rows that the gateway has already received are not included.
    func suspects(_ numbers: NextLocalIDs) throws -> [Suspect] {
        try entities.flatMap { entity -> [Suspect] in
            guard let next = numbers[entity.entityType], try isRestored(entity, next) else { return [] }
            let rows = try Row.fetchAll(
                db,
                sql: """
                    SELECT m.id, m.key FROM sluice_mutations m
                    WHERE m.entity_type = ? AND m.operation = 'create' AND m.status = 'queued'
                        AND CAST(m.key AS INTEGER) < ?
                    ORDER BY m.sequence_number
                    """,
                arguments: [entity.entityType, next]
            )
            return try rows.map { Suspect(mutation: try UUID(wire: $0[0]), name: EntityName(entity.entityType, $0[1])) }
        }
    }

    /// A row with a local id that may belong to another row.
    struct Suspect: Sendable {
        let mutation: UUID
        let name: EntityName
    }

    /// Assigns another local id to a row that was never sent.
    func renumber(_ name: EntityName) throws {
        guard let entity = map[name.entityType],
            let mapping = try IDMapping.of(name.entityType, key: name.key, db)
        else { return }
        let number = try next()[entity.entityType] ?? 1
        try KeyRewriter(map, db).rename(mapping, entity, to: number)
        try raise(to: [entity.entityType: min(number, .max - 1) + 1])
    }

    /// Returns whether the gateway has local ids that the phone has never sent or received.
    private func isRestored(_ entity: EntitySync, _ next: Int64) throws -> Bool {
        let highest = try Int64.fetchOne(
            db,
            sql: """
                SELECT max(max(CAST(i.key AS INTEGER), coalesce(CAST(i.client_id AS INTEGER), 0)))
                FROM sluice_id_mappings i
                WHERE i.entity_type = ?1 AND NOT EXISTS (
                    SELECT 1 FROM sluice_mutations m
                    WHERE m.entity_type = ?1 AND m.key = i.key AND m.operation = 'create' AND m.status = 'queued')
                """,
            arguments: [entity.entityType]
        )
        return (highest ?? 0) < next - 1
    }
}
