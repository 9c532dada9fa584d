import Foundation
import GRDB

/// A mutation in the outbox, as it is sent to the gateway.
struct OutboxRow: Sendable {
    /// The version of the format of stored rows. Later versions of the library read every earlier format.
    static let format = 1

    var sequence: Int64
    let id: UUID
    let idempotencyKey: UUID
    let operation: String
    let entityType: String
    /// The key of the app's row; nil for requests that are not about a row.
    var key: String?
    var localID: JSON?
    var serverID: JSON?
    var endpoint: String?
    var payload: JSON?
    var headers: [String: String] = [:]
    var dependencies: [UUID] = []
    var orderKey: String?
    var baseVersion: Int64?
    var conflictResolution: String?
    var priority: Int?
    var maxAttempts: Int?
    let createdAt: String
    /// The client ids of creates that this mutation depends on.
    var names: [ClientName] = []
    /// Whether the app's row shows the mutation, on top of the document that was last received from the server.
    var isShown = true

    /// The mutation as an entry of a push (`docs/api.md`, a mutation). It has the same bytes each time.
    var entry: JSON {
        var entry: [String: JSON] = [
            "id": .string(id.wire), "idempotency_key": .string(idempotencyKey.wire),
            "sequence_number": .integer(sequence), "operation": .string(operation),
            "entity_type": .string(entityType), "created_at": .string(createdAt),
        ]
        entry["local_id"] = localID
        entry["server_id"] = serverID
        entry["endpoint"] = endpoint.map(JSON.string)
        entry["payload"] = payload
        entry["headers"] = headers.isEmpty ? nil : .object(headers.mapValues(JSON.string))
        entry["dependency_ids"] = dependencies.isEmpty ? nil : .array(dependencies.map { .string($0.wire) })
        entry["order_key"] = orderKey.map(JSON.string)
        entry["base_version"] = baseVersion.map(JSON.integer)
        entry["conflict_resolution"] = conflictResolution.map(JSON.string)
        entry["priority"] = priority.map { .integer(Int64($0)) }
        entry["max_attempts"] = maxAttempts.map { .integer(Int64($0)) }
        return .object(entry)
    }
}

extension OutboxRow {
    static let columns = """
        sequence_number, id, idempotency_key, operation, entity_type, key, local_id, server_id, endpoint, payload,
        headers, dependency_ids, base_version, conflict_resolution, priority, max_attempts, created_at, names, is_shown,
        order_key
        """

    init(_ row: Row) throws {
        sequence = row["sequence_number"]
        id = try UUID(wire: row["id"])
        idempotencyKey = try UUID(wire: row["idempotency_key"])
        operation = row["operation"]
        entityType = row["entity_type"]
        key = row["key"]
        localID = try row.json("local_id")
        serverID = try row.json("server_id")
        endpoint = row["endpoint"]
        payload = try row.json("payload")
        headers = try row.json("headers")?.object?.compactMapValues(\.string) ?? [:]
        dependencies = try row.json("dependency_ids")?.array?.compactMap(\.string).map(UUID.init(wire:)) ?? []
        baseVersion = row["base_version"]
        conflictResolution = row["conflict_resolution"]
        priority = row["priority"]
        maxAttempts = row["max_attempts"]
        createdAt = row["created_at"]
        names = try row.json("names")?.array?.compactMap(\.string).map(ClientName.init(text:)) ?? []
        isShown = row["is_shown"]
        orderKey = row["order_key"]
    }

    func insert(_ db: Database) throws {
        let statement = try db.cachedStatement(
            sql: """
                INSERT INTO sluice_mutations (format, \(Self.columns))
                VALUES (\(Self.format), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """
        )
        try statement.execute(arguments: [
            sequence, id.wire, idempotencyKey.wire, operation, entityType, key, localID?.text, serverID?.text, endpoint,
            payload?.text, headers.isEmpty ? nil : JSON.object(headers.mapValues(JSON.string)).text,
            dependencies.isEmpty ? nil : JSON.array(dependencies.map { .string($0.wire) }).text, baseVersion,
            conflictResolution, priority, maxAttempts, createdAt, JSON.array(names.map { .string($0.text) }).text,
            isShown, orderKey,
        ])
    }
}
