import Foundation
import GRDB

/// Writes the app's rows, within one transaction. A row shows the entity's document as last received from the server,
/// with the phone's edits applied to it: the document to show.
final class Projection {
    private let map: EntityMap
    private let identities: Identities
    private let db: Database
    private var writers: [String: RowWriter] = [:]
    /// Whether any row is held (``hold(_:_:_:)``). A held row may wait for a row that is written now.
    private lazy var isAnyHeld = Result {
        try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM sluice_held)") ?? false
    }

    init(_ map: EntityMap, _ identities: Identities, _ db: Database) {
        self.map = map
        self.identities = identities
        self.db = db
    }

    convenience init(_ map: EntityMap, _ db: Database, now: Date) {
        self.init(map, Identities(map, db, now: now), db)
    }

    /// Returns the document to show for an entity, with the phone's keys; nil if there is no document.
    ///
    /// - Parameter edits: the edits to apply to the base.
    func document(_ entity: EntitySync, _ key: String, of edits: Edit.Selection = .all) throws -> JSON? {
        let name = EntityName(entity.entityType, key)
        return try document(entity, name, base: try ServerSnapshot.of(name, db), edits)
    }

    private func document(
        _ entity: EntitySync,
        _ name: EntityName,
        base: ServerSnapshot?,
        _ selection: Edit.Selection = .all
    ) throws -> JSON? {
        let edits = try Edit.shown(of: name, selection, db).map { edit in
            Edit(
                operation: edit.operation,
                payload: try edit.payload.map { try identities.toLocal($0, entity) }
            )
        }
        return Edit.shown(edits, on: base)
    }

    /// Writes an entity's row again.
    ///
    /// - Parameter own: the columns that keep the row's value if the document has no such member.
    func refresh(_ entity: EntitySync, _ key: String, keeping own: [SyncedColumn] = []) throws {
        let name = EntityName(entity.entityType, key)
        guard !own.isEmpty, let document = try document(entity, key) else {
            return try refresh(entity, name, base: try ServerSnapshot.of(name, db))
        }
        let kept = own.filter { document[$0.member] == nil }
        let values = kept.isEmpty ? [:] : try writer(entity).values(of: key, kept)
        try refresh(entity, name, base: try ServerSnapshot.of(name, db))
        try writer(entity).restore(values, key)
    }

    /// Writes an entity's row. The caller has already read the entity's base.
    ///
    /// After that, the method writes the rows that waited for this row, then the rows that waited for those rows, and
    /// so on.
    ///
    /// - Parameter hasEdits: whether the entity may have edits on top of the base.
    func refresh(_ entity: EntitySync, _ name: EntityName, base: ServerSnapshot?, hasEdits: Bool = true) throws {
        var arrived: [EntityName] = []
        try write(entity, name, hasEdits ? document(entity, name, base: base) : Edit.shown([], on: base), &arrived)
        while let target = arrived.popLast() {
            for name in try waiting(for: target) {
                // if the app no longer synchronizes the type of a waiting row, the row continues to wait
                if let entity = map[name.entityType] {
                    try write(entity, name, try document(entity, name.key), &arrived)
                }
            }
        }
    }

    private func write(
        _ entity: EntitySync,
        _ name: EntityName,
        _ document: JSON?,
        _ arrived: inout [EntityName]
    ) throws {
        let writer = writer(entity)
        let descendants = document == nil ? try descendants(of: name) : []
        switch try writer.write(name.key, document) {
        case .unchanged:
            if try isAnyHeld.get() { try release(name) }
        case .written:
            // a row that SQLite deleted together with its parent, although no write has deleted the row, is held until
            // the parent exists again
            for descendant in descendants { try restore(descendant, &arrived) }
            guard try isAnyHeld.get() else { return }
            try release(name)
            arrived.append(name)
        case .notWritten(let reason, let target): try hold(name, reason, target)
        }
    }

    /// Writes an entity's row again if any row is held. This releases a row whose deletion was held, if the app itself
    /// has now deleted the row.
    func refreshIfHeld(_ entity: EntitySync, _ key: String) throws {
        if try isAnyHeld.get() { try refresh(entity, key) }
    }

    /// Returns the rows that SQLite deletes together with a row: the rows that reference this row, then the rows that
    /// reference those rows, and so on. Each row is returned once, even if rows reference each other.
    private func descendants(of name: EntityName) throws -> [EntityName] {
        var found = [name]
        var known: Set = [name]
        var next = 0
        while next < found.count {
            if let entity = map[found[next].entityType] {
                found += try writer(entity).cascade(of: found[next].key).filter { known.insert($0).inserted }
            }
            next += 1
        }
        return Array(found.dropFirst())
    }

    private func restore(_ name: EntityName, _ arrived: inout [EntityName]) throws {
        guard let entity = map[name.entityType], try !writer(entity).hasRow(name.key) else { return }
        try write(entity, name, try document(entity, name.key), &arrived)
    }

    /// Restores the rows that reference a restored row. The app's foreign keys deleted them together with that row,
    /// although no write has deleted them.
    func restoreChildren(of name: EntityName) throws {
        var parents = [name]
        while let parent = parents.popLast() {
            for entity in Set((map.referrers[parent.entityType] ?? []).map(\.entity.entityType)).compactMap({ map[$0] })
            {
                let keys = try String.fetchAll(
                    db,
                    sql: """
                        SELECT key FROM sluice_base WHERE entity_type = ?1 AND NOT is_deleted AND instr(document, ?2)
                        UNION
                        SELECT key FROM sluice_mutations WHERE entity_type = ?1 AND is_shown
                        """,
                    arguments: [entity.entityType, parent.key]
                )
                for key in keys {
                    // an existing row is also written again, because `ON DELETE SET NULL` may have removed its
                    // reference
                    let wasThere = try writer(entity).hasRow(key)
                    try refresh(entity, key)
                    if try !wasThere && writer(entity).hasRow(key) {
                        parents.append(EntityName(entity.entityType, key))
                    }
                }
            }
        }
    }

    /// Returns the value that a column gets if the document has no such member; nil for NULL.
    func standard(of column: SyncedColumn, in entity: EntitySync) throws -> DatabaseValue? {
        try writer(entity).standard(of: column)
    }

    private func writer(_ entity: EntitySync) -> RowWriter {
        if let writer = writers[entity.entityType] { return writer }
        let writer = RowWriter(entity, map, db)
        writers[entity.entityType] = writer
        return writer
    }

    // MARK: - Rows that cannot be written

    /// Holds an entity's row: stores that the row differs from the document to show, and the reason.
    func hold(_ name: EntityName, _ reason: String, _ target: EntityName? = nil) throws {
        isAnyHeld = .success(true)
        let statement = try db.cachedStatement(
            sql: """
                INSERT INTO sluice_held (entity_type, key, reason, waits_for_type, waits_for_key) VALUES (?, ?, ?, ?, ?)
                ON CONFLICT (entity_type, key) DO UPDATE
                SET reason = excluded.reason, waits_for_type = excluded.waits_for_type,
                    waits_for_key = excluded.waits_for_key
                """
        )
        try statement.execute(arguments: [name.entityType, name.key, reason, target?.entityType, target?.key])
    }

    private func release(_ name: EntityName) throws {
        let statement = try db.cachedStatement(sql: "DELETE FROM sluice_held WHERE entity_type = ? AND key = ?")
        try statement.execute(arguments: [name.entityType, name.key])
    }

    private func waiting(for name: EntityName) throws -> [EntityName] {
        try names(
            sql: "SELECT entity_type, key FROM sluice_held WHERE waits_for_type = ? AND waits_for_key = ?",
            [name.entityType, name.key]
        )
    }

    /// Returns held rows that do not wait for another row, up to a limit.
    func held(limit: Int) throws -> [EntityName] {
        try names(
            sql: "SELECT entity_type, key FROM sluice_held WHERE waits_for_type IS NULL ORDER BY random() LIMIT ?",
            [limit]
        )
    }

    func refresh(_ names: [EntityName]) throws {
        for name in names {
            if let entity = map[name.entityType] { try refresh(entity, name.key) }
        }
    }

    private func names(sql: String, _ arguments: StatementArguments) throws -> [EntityName] {
        try Row.fetchAll(db, sql: sql, arguments: arguments).map { EntityName($0[0], $0[1]) }
    }
}
