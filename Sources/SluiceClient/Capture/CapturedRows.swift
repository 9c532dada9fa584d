import Foundation
import GRDB

/// The rows that the app has changed, as recorded by triggers. A row stays recorded until its change is enqueued or
/// reported.
struct CapturedRows: Sendable {
    private let map: EntityMap
    /// Whether the client uses triggers.
    let isOn: Bool
    private let mode: SluiceClient.Capture

    init(_ map: EntityMap, _ configuration: SluiceClient.Configuration) {
        self.map = map
        mode = configuration.capture
        isOn = mode == .triggers || configuration.onMissedChanges != nil
    }

    private struct Noted {
        let sequence: Int64
        let entity: EntitySync
        let key: DatabaseValue
    }

    // MARK: - The client's beginning

    /// Enqueues the changes that the previous process recorded but did not enqueue, and installs the triggers.
    func begin(_ database: any DatabaseWriter, now: Date) throws {
        let isAny = try database.read { try Self.isAny($0) }
        guard isOn || isAny else { return }
        try database.write { db in
            try CaptureTriggers(map, db).remove()
            if isAny { try enqueueAll(db, now: now) }
            if isOn { try CaptureTriggers(map, db).install(isDurable: mode == .triggers) }
        }
    }

    /// Calls a closure after each transaction in which the app has changed a mapped column.
    func observe(_ database: any DatabaseWriter, _ onChange: @escaping @Sendable () -> Void) -> AnyDatabaseCancellable?
    {
        guard isOn else { return nil }
        return DatabaseRegionObservation(tracking: map.entities.map { Table($0.table) }).start(
            in: database,
            // errors are ignored, because other code that uses the database gets the same errors
            onError: { _ in },
            onChange: { db in if (try? Self.isAny(db)) ?? false { onChange() } }
        )
    }

    static func isAny(_ db: Database) throws -> Bool {
        try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM sluice_captured WHERE problem IS NULL)") ?? false
    }

    // MARK: - The library's own writes

    /// Enqueues the app's earlier changes, and runs `body` without recording its writes.
    func applying<Value>(_ db: Database, now: Date, _ body: () throws -> Value) throws -> Value {
        guard isOn else { return try body() }
        if mode == .triggers { try enqueueAll(db, now: now) }
        try db.execute(sql: "INSERT OR IGNORE INTO sluice_applying (id) VALUES (1)")
        let value = try body()
        try db.execute(sql: "DELETE FROM sluice_applying")
        return value
    }

    // MARK: - Enqueuing

    /// Enqueues the recorded changes: creates first, then updates, and deletions last. A create follows the creates of
    /// the rows to which it refers.
    ///
    /// A row that cannot be enqueued stays recorded, together with the reason.
    ///
    /// - Parameter except: a row that the app enqueues itself.
    func enqueueAll(_ db: Database, now: Date, except: EntityName? = nil) throws {
        var (creates, updates, deletions): ([Noted], [Noted], [Noted]) = ([], [], [])
        let noted = try noted(db).filter { except == nil || name($0) != except }
        if noted.isEmpty { return }
        let rows = Projection(map, db, now: now)
        let comparison = RowComparison(map, rows, db)
        for noted in noted {
            try settle(noted, db) {
                switch try comparison.difference(noted.entity, noted.key) {
                case nil:
                    if let name = name(noted) { try rows.refreshIfHeld(noted.entity, name.key) }
                    return true
                case .created: creates.append(noted)
                case .changed: updates.append(noted)
                case .deleted: deletions.append(noted)
                }
                return false
            }
        }
        let unknown = UnknownRows(map, db, of: Set(map.entities.map(\.entityType))) { entity, values in
            try enqueue(Write(.create, row: values, of: entity.entityType), db, now)
        }
        for noted in creates + updates + deletions {
            try settle(noted, db) {
                let comparison = RowComparison(map, Projection(map, db, now: now), db)
                let type = noted.entity.entityType
                switch try comparison.difference(noted.entity, noted.key) {
                case nil: break
                case .created(let values):
                    guard try unknown.enqueue(values, of: noted.entity) == 0 else { break }
                    // an earlier entity with this key was discarded or deleted, so this row is a new entity
                    try enqueue(Write(.create, row: values, of: type), db, now)
                case .changed(let values, _): try enqueue(Write(.update, row: values, of: type), db, now)
                case .deleted: try enqueue(Write(deletionOf: noted.key, of: type), db, now)
                }
                return true
            }
        }
    }

    private func enqueue(_ write: Write, _ db: Database, _ now: Date) throws {
        _ = try Enqueuing(map, db, sequence: try Device.nextSequence(db), now: now).enqueue(write)
    }

    private func noted(_ db: Database) throws -> [Noted] {
        try Row.fetchAll(db, sql: "SELECT sequence, entity_type, key FROM sluice_captured ORDER BY sequence")
            .compactMap { row in
                map[row[1]].map { Noted(sequence: row[0], entity: $0, key: row[2]) }
            }
    }

    private func name(_ noted: Noted) -> EntityName? {
        noted.entity.key.text(of: noted.key).map { EntityName(noted.entity.entityType, $0) }
    }

    /// - Parameter body: returns true if the row requires no further work.
    private func settle(_ noted: Noted, _ db: Database, _ body: () throws -> Bool) throws {
        var (isDone, problem): (Bool, String?) = (false, nil)
        do {
            try db.inSavepoint {
                isDone = try body()
                return .commit
            }
        } catch let error as SluiceError {
            problem = error.description
        }
        guard isDone || problem != nil else { return }
        let sql =
            isDone
            ? "DELETE FROM sluice_captured WHERE sequence = ?2"
            : "UPDATE sluice_captured SET problem = ?1 WHERE sequence = ?2"
        try db.execute(sql: sql, arguments: isDone ? [nil, noted.sequence] : [problem, noted.sequence])
    }

    // MARK: - Reporting

    /// Returns the rows that the app has changed without calling the library. Each row is returned only once.
    func takeMissed(_ db: Database, now: Date) throws -> [MissedChange] {
        defer { try? db.execute(sql: "DELETE FROM sluice_captured") }
        let comparison = RowComparison(map, Projection(map, db, now: now), db)
        return try noted(db).compactMap { try comparison.missed($0.entity, $0.key) }
    }
}
