import Foundation
import GRDB

@testable import SluiceClient

/// A phone without a network. The test passes pages and responses to it.
final class Lab: Sendable {
    let pool: DatabasePool
    let client: SluiceClient
    let map: EntityMap

    /// - Parameters:
    ///   - sql: executed after the app's migrations.
    ///   - file: another phone's file.
    init(_ entities: [EntitySync] = [Contact.sync, Visit.sync], _ sql: String = "", file: String? = nil) throws {
        let folder = FileManager.default.temporaryDirectory
        pool = try DatabasePool(path: file ?? folder.appending(path: "phone-\(UUID().uuidString).sqlite").path)
        var migrator = DatabaseMigrator.app
        if !sql.isEmpty { migrator.registerMigration("more") { try $0.execute(sql: sql) } }
        try migrator.migrate(pool)
        var configuration = SluiceClient.Configuration()
        configuration.usesEvents = false
        let nowhere = URL(filePath: "/dev/null")
        client = try SluiceClient(
            database: pool,
            gateway: nowhere,
            entities: entities,
            configuration: configuration
        ) { "token" }
        map = try EntityMap(entities)
    }

    @discardableResult
    func write<Value>(_ body: (Database, SluiceClient) throws -> Value) throws -> Value {
        try pool.write { try body($0, client) }
    }

    @discardableResult
    func create<Record: Syncable & PersistableRecord>(_ record: Record) throws -> UUID? {
        try write { db, client in
            try record.insert(db)
            return try client.enqueue(.create(record), in: db)
        }
    }

    @discardableResult
    func update<Record: Syncable & PersistableRecord>(_ record: Record) throws -> UUID? {
        try write { db, client in
            try record.update(db)
            return try client.enqueue(.update(record), in: db)
        }
    }

    /// The next batch to push.
    func batch() throws -> PushBatch? {
        try pool.write { [map] db in try PushBatch.next(.init(), db, Projection(map, db, now: Date())) }
    }

    /// - Returns: whether the answer is accepted as a response to the batch.
    func answer(_ answer: JSON, to batch: PushBatch) throws -> Bool {
        try pool.write { [map] db in try PushAnswer(map, db, now: Date()).apply(answer, to: batch) }
    }

    /// Reports that all mutations of the batch took effect, in version 1.
    func succeed(_ batch: PushBatch) throws -> Bool {
        let results = batch.rows.map { row -> JSON in
            [
                "id": .string(row.id.wire), "status": "succeeded", "version": 1,
                "server_id": row.serverID ?? .string(UUID.random().wire),
            ]
        }
        return try answer(
            ["results": .array(results), "accepted_sequence": .integer(batch.rows.last?.sequence ?? 0)],
            to: batch
        )
    }

    /// Applies a page with one change.
    func change(_ type: String, _ id: JSON, version: Int64, _ document: JSON?) throws {
        let change: JSON = [
            "entity_type": .string(type), "id": id, "version": .integer(version),
            "deleted": .bool(document == nil), "document": document ?? .null,
        ]
        try pull([change])
    }

    /// Applies a page that ends a pull.
    func pull(_ changes: [JSON]) throws {
        let answer: JSON = [
            "changes": .array(changes), "next": .string(UUID.random().wire), "up_to_date": true,
        ]
        guard let page = ChangesPage(answer) else { throw SluiceError.invalid("no page") }
        try pool.write { [map] db in
            let cursor = try Feed.read(db).cursor
            _ = try PageApplication(map, db, now: Date()).apply(page, after: cursor)
        }
    }

    func strings(_ sql: String) throws -> [String] { try pool.read { try String.fetchAll($0, sql: sql) } }
}
