import Foundation
import GRDB

@testable import SluiceClient

/// A phone as a vector describes it: a file with the app's tables in their initial state, and the client on it.
final class VectorPhone: Sendable {
    let pool: DatabasePool
    let entities: [EntitySync]
    private let folder: URL
    private let url: URL
    private let clock = Locked(Date(timeIntervalSince1970: 0))
    private let running: Locked<SluiceClient?> = Locked(nil)

    init(_ vector: JSON, gateway url: URL) throws {
        self.url = url
        folder = FileManager.default.temporaryDirectory.appending(path: "vector-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let entities = try VectorEntities.read(vector)
        self.entities = entities
        pool = try DatabasePool(path: folder.appending(path: "app.sqlite").path)
        var migrator = DatabaseMigrator()
        migrator.registerSluiceMigrations()
        migrator.registerMigration("app") { try VectorEntities.makeTables(entities, $0) }
        try migrator.migrate(pool)
        try set(clock: "2026-01-15T12:00:00.000Z")
        let start = vector["start"] ?? [:]
        try pool.write { try VectorState(entities, $0).write(start) }
        try launch()
    }

    func erase() { try? FileManager.default.removeItem(at: folder) }

    /// Restarts the app on the same file.
    func launch() throws {
        let (clock, issued) = (clock, Locked(0))
        var configuration = SluiceClient.Configuration()
        configuration.usesEvents = false
        configuration.now = { clock.withLock { $0 } }
        let client = try SluiceClient(
            database: pool,
            gateway: url,
            entities: entities,
            configuration: configuration
        ) {
            issued.withLock { count in
                count += 1
                return "token-\(count)"
            }
        }
        running.withLock { $0 = client }
    }

    var client: SluiceClient {
        get throws {
            guard let client = running.withLock({ $0 }) else { throw Vector.Failure("no client runs") }
            return client
        }
    }

    func set(clock moment: String) throws {
        guard let date = Date.fromDatabaseValue(moment.databaseValue) else {
            throw Vector.Failure("'\(moment)' is not a moment")
        }
        clock.withLock { $0 = date }
    }

    /// One synchronization, until no immediate work is left.
    ///
    /// - Returns: the seconds until the client's next request.
    func synchronize() async throws -> Double {
        let worker = try client.worker
        await worker.endBackOff()
        return await worker.turn().seconds
    }

    // MARK: - Edits

    /// Executes the app's change of a row, and enqueues it in the same transaction.
    ///
    /// - Returns: the mutation's id, if there is one.
    func edit(_ edit: JSON) throws -> UUID? {
        let client = try client
        for operation in [RowOperation.create, .update, .replace, .delete] {
            guard let type = edit[operation.rawValue]?.string else { continue }
            guard let entity = entities.first(where: { $0.entityType == type }) else {
                throw Vector.Failure("there is no entity type '\(type)'")
            }
            return try pool.write { db in
                let record = VectorRow(values: try Self.apply(operation, try edit.required("row"), entity, db))
                return try VectorRow.$entity.withValue(entity) {
                    let write =
                        switch operation {
                        case .create: try Write.create(record)
                        case .update: try Write.update(record)
                        case .replace: try Write.replace(record)
                        case .delete: try Write.delete(record)
                        }
                    return try client.enqueue(write, in: db)
                }
            }
        }
        throw Vector.Failure("an invalid edit: \(edit)")
    }

    /// - Returns: the row's current values, or those before the row was deleted.
    private static func apply(
        _ operation: RowOperation,
        _ row: JSON,
        _ entity: EntitySync,
        _ db: Database
    ) throws -> [String: DatabaseValue] {
        let values = try VectorState.values(row, entity)
        let key = entity.key.column
        var id = values[key] ?? .null
        switch operation {
        case .create:
            try VectorState.insert(values, into: entity, db)
            if id.isNull { id = db.lastInsertedRowID.databaseValue }
        case .update, .replace:
            for (column, value) in values where column != key {
                try db.execute(
                    sql: "UPDATE \(entity.table) SET \(column) = ? WHERE \(key) = ?",
                    arguments: [value, id]
                )
            }
        case .delete: break
        }
        let found = try Row.fetchOne(db, sql: "SELECT * FROM \(entity.table) WHERE \(key) = ?", arguments: [id])
        guard let found else { throw Vector.Failure("\(entity.table) has no row \(id)") }
        if operation == .delete {
            try db.execute(sql: "DELETE FROM \(entity.table) WHERE \(key) = ?", arguments: [id])
        }
        return Dictionary(uniqueKeysWithValues: found.map { ($0, $1) })
    }

    // MARK: - Decisions

    /// Executes a user's settlement of a mutation.
    func decide(_ decision: JSON) async throws {
        let client = try client
        func id(_ member: String) throws -> UUID { try UUID(wire: try decision.text(member)) }
        if decision["retry"] != nil {
            guard let record = try await record(decision, of: try id("retry")) else {
                return try await client.retry(try id("retry"))
            }
            try await client.retry(try id("retry"), editing: record)
        } else if decision["discard"] != nil {
            let dependents = decision["dependents"]?.string.flatMap(Dependents.init(rawValue:))
            try await client.discard(try id("discard"), dependents: dependents)
        } else {
            let winner = Winner(rawValue: try decision.text("winner")) ?? .server
            guard let record = try await record(decision, of: try id("resolve")) else {
                return try await client.resolve(try id("resolve"), winner)
            }
            try await client.resolve(try id("resolve"), with: record)
        }
    }

    /// The row of a mutation with the columns of a settlement; nil for a settlement without an edit.
    private func record(_ decision: JSON, of mutation: UUID) async throws -> VectorRow? {
        guard let row = decision["row"] else { return nil }
        return try await pool.read { [entities] db in
            let named = try Row.fetchOne(
                db,
                sql: "SELECT entity_type, key FROM sluice_mutations WHERE id = ?",
                arguments: [mutation.wire]
            )
            guard let named, let entity = entities.first(where: { $0.entityType == named[0] as String }) else {
                throw Vector.Failure("there is no mutation \(mutation.wire)")
            }
            let found = try Row.fetchOne(
                db,
                sql: "SELECT * FROM \(entity.table) WHERE \(entity.key.column) = ?",
                arguments: [named[1] as String]
            )
            let values = Dictionary(uniqueKeysWithValues: (found ?? Row()).map { ($0, $1) })
            return VectorRow(values: values.merging(try VectorState.values(row, entity)) { $1 })
        }
    }

    // MARK: - Current state

    /// Checks all parts of an expectation.
    func state(_ expected: JSON) throws -> JSON {
        var state = try pool.read { try VectorState(entities, $0).read(expected) }
        if expected["client"] != nil { state["client"] = .string("\(try client.currentStatus.phase)") }
        return state
    }

    /// The gateway's response to a registration without new data.
    func registration() throws -> JSON {
        let accepted = try pool.read { try Int64.fetchOne($0, sql: "SELECT accepted_sequence FROM sluice_device") }
        return ["accepted_sequence": .integer(accepted ?? 0), "next_local_ids": [:]]
    }
}
