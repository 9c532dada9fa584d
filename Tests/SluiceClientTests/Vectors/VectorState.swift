import Foundation
import GRDB

@testable import SluiceClient

/// Rows, outbox, ids, base and device of a phone, in the notation of vectors.
struct VectorState {
    let entities: [EntitySync]
    let db: Database

    init(_ entities: [EntitySync], _ db: Database) {
        self.entities = entities
        self.db = db
    }

    private func entity(_ type: String) throws -> EntitySync {
        guard let entity = entities.first(where: { $0.entityType == type }) else {
            throw Vector.Failure("there is no entity type '\(type)'")
        }
        return entity
    }

    // MARK: - The app's rows

    /// A vector's row by column.
    static func values(_ row: JSON, _ entity: EntitySync) throws -> [String: DatabaseValue] {
        var values: [String: DatabaseValue] = [:]
        for (name, value) in row.object ?? [:] {
            let column = entity.columns.first { $0.name == name }
            guard column != nil || name == entity.key.column else {
                throw Vector.Failure("'\(entity.entityType)' has no column '\(name)'")
            }
            values[name] = try VectorEntities.databaseValue(value, column)
        }
        return values
    }

    static func insert(_ values: [String: DatabaseValue], into entity: EntitySync, _ db: Database) throws {
        let names = values.keys.sorted()
        try db.execute(
            sql: """
                INSERT INTO \(entity.table) (\(names.joined(separator: ", ")))
                VALUES (\(names.map { _ in "?" }.joined(separator: ", ")))
                """,
            arguments: StatementArguments(names.map { values[$0] ?? .null })
        )
    }

    private func rows(_ type: String) throws -> JSON {
        let entity = try entity(type)
        let found = try Row.fetchAll(db, sql: "SELECT * FROM \(entity.table) ORDER BY \(entity.key.column)")
        return .array(
            try found.map { row in
                var members: [String: JSON] = [:]
                for (name, value) in row {
                    members[name] = try VectorEntities.json(value, entity.columns.first { $0.name == name })
                }
                return .object(members)
            }
        )
    }

    // MARK: - Before the first step

    func write(_ start: JSON) throws {
        try writeDevice(start["device"] ?? [:])
        for (type, rows) in start["rows"]?.object ?? [:] {
            let entity = try entity(type)
            for row in rows.array ?? [] { try Self.insert(try Self.values(row, entity), into: entity, db) }
        }
        for id in try start.list("ids") {
            let type = try id.text("type")
            try IDMapping(
                entityType: type,
                key: try key(id, type),
                clientID: id["client_id"].flatMap { $0.isNull ? nil : $0 },
                serverID: id["server_id"].flatMap { $0.isNull ? nil : $0 },
                status: id["status"]?.string.flatMap(IDMapping.Status.init(rawValue:)) ?? .resolved
            ).save(db, at: "2026-01-01T00:00:00.000Z")
        }
        for base in try start.list("base") {
            let type = try base.text("type")
            try ServerSnapshot(
                version: base["version"]?.int64,
                etag: base["etag"]?.string,
                isDeleted: base["deleted"]?.bool ?? false,
                document: base["document"].flatMap { $0.isNull ? nil : $0 }
            ).save(EntityName(type, try key(base, type)), generation: 1, db)
        }
        for row in try start.list("outbox") { try writeMutation(row) }
    }

    private func writeDevice(_ device: JSON) throws {
        try db.execute(
            sql: """
                INSERT INTO sluice_device (
                    id, device_id, next_sequence, accepted_sequence, cursor, pulled_types, generation, is_snapshot,
                    snapshot_began_at)
                VALUES (1, ?, ?, ?, ?, ?, 1, ?, '2026-01-01T00:00:00.000Z')
                """,
            arguments: [
                device["device_id"]?.string ?? UUID().wire, device["next_sequence"]?.int64 ?? 1,
                device["accepted_sequence"]?.int64 ?? 0, device["cursor"]?.string,
                // in the client's format; with other types than its own, the client would ignore the cursor
                entities.map(\.entityType).sorted().joined(separator: ","),
                device["cursor"]?.string == nil,
            ]
        )
        for (type, next) in device["next_local_ids"]?.object ?? [:] {
            try db.execute(
                sql: "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)",
                arguments: [try entity(type).table, (next.int64 ?? 1) - 1]
            )
        }
    }

    private func writeMutation(_ row: JSON) throws {
        let (type, status) = (try row.text("entity_type"), row["status"]?.string ?? "queued")
        let mutation = OutboxRow(
            sequence: row["sequence_number"]?.int64 ?? 1,
            id: try UUID(wire: try row.text("id")),
            idempotencyKey: try UUID(wire: try row.text("idempotency_key")),
            operation: try row.text("operation"),
            entityType: type,
            key: try key(row, type),
            localID: row["local_id"],
            serverID: row["server_id"],
            endpoint: row["endpoint"]?.string,
            payload: row["payload"],
            headers: [:],
            dependencies: [],
            baseVersion: row["base_version"]?.int64,
            conflictResolution: nil,
            priority: nil,
            maxAttempts: nil,
            createdAt: row["created_at"]?.string ?? "2026-01-14T12:00:00.000Z",
            names: [],
            isShown: row["on_top"]?.bool ?? !["succeeded", "discarded"].contains(status)
        )
        try mutation.insert(db)
        try db.execute(
            sql: """
                UPDATE sluice_mutations SET status = ?, version = ?, edited_payload = ?, settled_at = ?
                WHERE sequence_number = ?
                """,
            arguments: [
                status, row["version"]?.int64, row["edited_payload"]?.text,
                ["succeeded", "discarded"].contains(status) ? "2026-01-14T12:00:00.000Z" : nil, mutation.sequence,
            ]
        )
    }

    private func key(_ json: JSON, _ type: String) throws -> String {
        guard let key = try entity(type).key.text(of: try json.required("key")) else {
            throw Vector.Failure("\(json) has no key of '\(type)'")
        }
        return key
    }

    // MARK: - After a step

    /// Returns only the members that an expectation names.
    func read(_ expected: JSON) throws -> JSON {
        var state: [String: JSON] = [:]
        for member in (expected.object ?? [:]).keys {
            switch member {
            case "rows":
                let types = (expected["rows"]?.object ?? [:]).keys
                state[member] = .object(try types.reduce(into: [:]) { $0[$1] = try rows($1) })
            case "outbox": state[member] = try outbox()
            case "ids":
                let columns = "entity_type AS type, key, client_id, server_id, status"
                state[member] = try list(columns, "sluice_id_mappings", json: ["client_id", "server_id"])
            case "base":
                let columns = "entity_type AS type, key, version, etag, is_deleted AS deleted, document"
                state[member] = try list(columns, "sluice_base", json: ["document"])
            case "held": state[member] = try list("entity_type AS type, key", "sluice_held", json: [])
            case "decisions":
                let sql = "SELECT mutation_id AS mutation, action FROM sluice_intents ORDER BY id"
                let rows = try Row.fetchAll(db, sql: sql)
                state[member] = .array(try rows.map { try object($0, json: []) })
            case "device": state[member] = try device()
            case "client": break
            default: throw Vector.Failure("'\(member)' cannot be expected")
            }
        }
        return .object(state)
    }

    private func list(_ columns: String, _ table: String, json: Set<String>) throws -> JSON {
        .array(
            try Row.fetchAll(db, sql: "SELECT \(columns) FROM \(table) ORDER BY entity_type, key").map {
                try object($0, json: json)
            }
        )
    }

    private func outbox() throws -> JSON {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT id, idempotency_key, sequence_number, status, operation, entity_type, key, local_id,
                    server_id, coalesce(edited_payload, payload) AS payload, base_version, version,
                    is_shown AS on_top
                FROM sluice_mutations ORDER BY sequence_number
                """
        )
        return .array(try rows.map { try object($0, json: ["local_id", "server_id", "payload"]) })
    }

    private func device() throws -> JSON {
        let row = try Row.fetchOne(
            db,
            sql: "SELECT device_id, accepted_sequence, cursor FROM sluice_device"
        )
        var device = try object(row ?? Row(), json: [])
        device["next_sequence"] = .integer(try Device.nextSequence(db))
        device["next_local_ids"] = .object(
            try DeviceNumbers(try EntityMap(entities), db).next().mapValues(JSON.integer)
        )
        return device
    }

    /// A row of the library's tables.
    private func object(_ row: Row, json: Set<String>) throws -> JSON {
        var members: [String: JSON] = [:]
        for (name, value) in row {
            members[name] =
                switch (name, value.storage) {
                case (_, .null): .null
                case ("deleted", .int64(let number)), ("on_top", .int64(let number)): .bool(number != 0)
                case ("key", .string(let text)): try entity(row["type"] ?? row["entity_type"]).key.json(of: text)
                case (_, .string(let text)): json.contains(name) ? try JSON(parsing: text) : .string(text)
                case (_, .int64(let number)): .integer(number)
                default: throw Vector.Failure("\(name) is \(value)")
                }
        }
        return .object(members)
    }
}
