import Foundation
import GRDB

@testable import SluiceClient

/// A phone without a gateway, to which the test applies pages and responses one at a time.
final class OfflinePhone: Sendable {
    let pool: DatabasePool
    let client: SluiceClient
    private let map: EntityMap

    /// - Parameter sql: executed after the app's migrations.
    init(_ entities: [EntitySync] = [Contact.sync, Visit.sync], _ sql: String = "") throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "phone-\(UUID().uuidString).sqlite")
        pool = try DatabasePool(path: file.path)
        var migrator = DatabaseMigrator.app
        migrator.registerMigration("more") { try $0.execute(sql: sql) }
        try migrator.migrate(pool)
        client = try Self.client(on: pool, entities)
        map = try EntityMap(entities)
    }

    static func client(on pool: DatabasePool, _ entities: [EntitySync]) throws -> SluiceClient {
        var configuration = SluiceClient.Configuration()
        configuration.usesEvents = false
        guard let nowhere = URL(string: "http://127.0.0.1:9") else { throw SluiceError.invalid("no address") }
        return try SluiceClient(database: pool, gateway: nowhere, entities: entities, configuration: configuration) {
            "token"
        }
    }

    // MARK: - The app

    @discardableResult
    func write<Value: Sendable>(_ body: @escaping @Sendable (Database, SluiceClient) throws -> Value) throws -> Value {
        try pool.write { [client] db in try body(db, client) }
    }

    @discardableResult
    func create<Record: Syncable & PersistableRecord & Sendable>(_ record: Record) throws -> UUID {
        let id = try write { db, client in try client.insert(record, in: db) }
        guard let id else { throw SluiceError.unknownMutation }
        return id
    }

    @discardableResult
    func update<Record: Syncable & PersistableRecord & Sendable>(_ record: Record) throws -> UUID {
        let id = try write { db, client in try client.update(record, in: db) }
        guard let id else { throw SluiceError.unknownMutation }
        return id
    }

    func all<Record: FetchableRecord & TableRecord & Sendable>(_ type: Record.Type) throws -> [Record] {
        try pool.read { try Record.fetchAll($0) }
    }

    func texts(_ sql: String) throws -> [String] { try pool.read { try String.fetchAll($0, sql: sql) } }

    func held() throws -> [HeldRow] { try pool.read { try HeldRow.fetchAll($0) } }

    // MARK: - The gateway

    /// Returns the next push, which then counts as sent.
    func push() throws -> PushBatch? {
        try pool.write { [map] db in try PushBatch.next(.init(), db, Projection(map, db, now: Date())) }
    }

    /// Applies the results of a push.
    func answer(_ batch: PushBatch?, _ results: [JSON]) throws {
        let answer: JSON = [
            "results": .array(results), "accepted_sequence": .integer(batch?.rows.last?.sequence ?? 0),
        ]
        guard let batch else { return }
        _ = try pool.write { [map] db in try PushAnswer(map, db, now: Date()).apply(answer, to: batch) }
    }

    /// Reports a mutation's state, like an event.
    func tell(_ json: JSON) throws {
        guard let result = MutationResult(json) else { return }
        try pool.write { [map] db in try PushAnswer(map, db, now: Date()).apply(result) }
    }

    /// Applies a page of changes.
    func pull(_ changes: JSON...) throws { try pull(changes) }

    func pull(_ changes: [JSON]) throws {
        let page = ChangesPage(["changes": .array(changes), "next": .string(UUID().uuidString), "up_to_date": true])
        guard let page else { return }
        _ = try pool.write { [map] db in
            try PageApplication(map, db, now: Date()).apply(page, after: Feed.read(db).cursor)
        }
    }

    /// Retries held rows that do not wait for a particular row, like each pull.
    func refreshHeld() throws {
        try pool.write { [map] db in
            let rows = Projection(map, db, now: Date())
            try rows.refresh(rows.held(limit: 1_000))
        }
    }
}

/// Messages of a gateway.
enum Told {
    /// An entity's change; without a document, its deletion.
    static func change(_ type: String, _ id: UUID, _ version: Int64, _ document: JSON?, by client: UUID? = nil) -> JSON
    {
        change(type, .string(id.wire), version, document, by: client)
    }

    static func change(_ type: String, _ id: JSON, _ version: Int64, _ document: JSON?, by client: UUID? = nil) -> JSON
    {
        var change: JSON = [
            "entity_type": .string(type), "id": id, "version": .integer(version), "deleted": .bool(document == nil),
        ]
        change["document"] = document ?? .null
        change["client_id"] = client.map { .string($0.wire) }
        return change
    }

    /// The outcome of a mutation.
    static func result(_ id: UUID, _ status: String, _ more: JSON = [:]) -> JSON {
        var result = more
        result["id"] = .string(id.wire)
        result["status"] = .string(status)
        return result
    }

    static func success(_ id: UUID, of entity: UUID, version: Int64? = 1) -> JSON {
        var result = Self.result(id, "succeeded", ["server_id": .string(entity.wire)])
        result["version"] = version.map(JSON.integer)
        return result
    }
}

/// A photo of a visit, deleted with it.
struct Photo: Codable, Hashable, FetchableRecord, PersistableRecord, Syncable {
    var id = UUID()
    var visitID: UUID
    var caption: String

    static let sync = EntitySync(
        "photo",
        table: "photo",
        key: .uuid("id"),
        columns: [.reference("visitID", as: "visit_id", to: "visit"), .text("caption")]
    )
    static let table = """
        CREATE TABLE photo (
            id BLOB PRIMARY KEY NOT NULL, visitID BLOB NOT NULL REFERENCES visit (id) ON DELETE CASCADE,
            caption TEXT NOT NULL);
        """
}
