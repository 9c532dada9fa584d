public import Foundation
public import GRDB

/// A write that did not take effect, and that requires a person's decision.
///
/// Nothing is lost before the decision, because the app's row still shows the write.
///
/// To observe all failed writes, use `ValueObservation.tracking { try FailedWrite.fetchAll($0) }` or
/// ``SluiceClient/failedWrites``.
public struct FailedWrite: Sendable, Hashable, Identifiable {
    /// The reason why a write did not take effect.
    public enum Reason: String, Sendable {
        /// The upstream refused the write permanently, or could not be reached within the allowed number of attempts.
        case failed
        /// Another writer changed the entity first, or the write would leave a reference to a deleted entity.
        /// ``theirs`` is the server's version. If the write would leave such a reference, ``problem`` has `errors`.
        case conflict
        /// The gateway did not accept the write.
        case rejected
    }

    /// The operation of a write.
    public enum Operation: Sendable, Hashable, CustomStringConvertible {
        case create, update, replace, delete
        /// A request to the organization's REST API with this method.
        case request(method: String)

        init(_ text: String) {
            switch RowOperation(rawValue: text) {
            case .create: self = .create
            case .update: self = .update
            case .replace: self = .replace
            case .delete: self = .delete
            case nil: self = .request(method: text)
            }
        }

        public var description: String {
            switch self {
            case .create: "create"
            case .update: "update"
            case .replace: "replace"
            case .delete: "delete"
            case .request(let method): method
            }
        }
    }

    /// The mutation's id.
    public let id: UUID
    /// The reason why the write did not take effect.
    public let reason: Reason
    /// The entity type's name at the gateway.
    public let entityType: String
    /// The text of the row's key: a lower-case UUID, or decimal digits.
    public let key: String?
    /// The permanent id of the write's row, with its JSON type; nil until the server has assigned an id.
    public var serverID: JSON?
    /// The operation of the write.
    public let operation: Operation
    /// The time when the write was enqueued, by the phone's clock.
    public let createdAt: Date
    /// The problem that the gateway reported.
    public let problem: Problem?
    /// The status and the body of the upstream's response, if there was a response.
    public var response: JSON?
    /// The payload that was sent, in the gateway's format. A reference to a row whose creation is in this phone's
    /// outbox is the row's client id, which is the key that the app has given to the row. Any other reference is a
    /// server id.
    public var payload: JSON?
    /// The server's entity in the gateway's format, with `document`, `version`, `etag` and `deleted`; nil if it is
    /// unknown. References in it are server ids.
    public let theirs: JSON?
    /// The reason why the gateway did not follow the last decision.
    public var decisionError: String?
    /// The number of attempts that the gateway has made.
    public var attempts = 0
    /// The user's other device, if that device made the write; nil for a write of this phone. If the other device is
    /// lost, only this phone can settle the write.
    public var deviceID: UUID?

    /// Creates a write without an outbox, for previews and tests of an app's views. All other properties can be set
    /// afterwards.
    public init(
        id: UUID = UUID(),
        reason: Reason,
        entityType: String,
        key: String? = nil,
        operation: Operation = .update,
        createdAt: Date = Date(),
        problem: Problem? = nil,
        theirs: JSON? = nil
    ) {
        self.id = id
        self.reason = reason
        self.entityType = entityType
        self.key = key
        self.operation = operation
        self.createdAt = createdAt
        self.problem = problem
        self.theirs = theirs
    }
}

extension FailedWrite {
    /// Returns all failed writes of this phone, the oldest first, followed by failed writes of the user's other
    /// devices. Writes about which a person has decided are not included: they are pending until the gateway has
    /// received the decision.
    public static func fetchAll(_ db: Database) throws -> [FailedWrite] { try fetch(db, "1") }

    /// Returns the failed writes that are conflicts.
    public static func fetchConflicts(_ db: Database) throws -> [FailedWrite] { try fetch(db, "m.status = 'conflict'") }

    /// Returns the failed writes of a row.
    ///
    /// - Parameters:
    ///   - type: the record of the row's table.
    ///   - key: the value of the row's key column, such as a `UUID`.
    public static func fetchAll<Record: Syncable>(
        _ db: Database,
        of type: Record.Type,
        key: some DatabaseValueConvertible
    ) throws -> [FailedWrite] {
        let sync = Record.sync
        guard let text = sync.key.text(of: key.databaseValue) else { return [] }
        return try fetch(db, "m.entity_type = ? AND m.key = ?", [sync.entityType, text])
    }

    /// Returns the failed writes of a row, by the text of its key.
    ///
    /// - Parameters:
    ///   - entityType: the entity type's name at the gateway.
    ///   - key: the text of the row's key: ``FailedWrite/key`` or ``HeldRow/key``. A UUID can be in upper or lower
    ///     case.
    public static func fetchAll(_ db: Database, of entityType: String, key: String) throws -> [FailedWrite] {
        // the library stores UUIDs in lower case, but a text key may be any text
        try fetch(db, "m.entity_type = ? AND m.key IN (?, ?)", [entityType, key, UUID(text: key)?.wire ?? key])
    }

    /// Returns the row as the app shows it, with the phone's writes; nil if the table does not have the row.
    ///
    /// ``SluiceClient/theirs(of:as:in:)`` returns the server's version.
    ///
    /// - Throws: ``SluiceError/configuration(_:)`` if the record does not have the write's entity type; errors of the
    ///   record's decoding.
    public func record<Record: Syncable & FetchableRecord>(as type: Record.Type, in db: Database) throws -> Record? {
        let sync = Record.sync
        guard sync.entityType == entityType else {
            throw SluiceError.configuration("the write is of '\(entityType)' and not of '\(sync.entityType)'")
        }
        guard let value = key.flatMap(sync.key.databaseValue(of:)) else { return nil }
        let (table, column) = (sync.table.quotedDatabaseIdentifier, sync.key.column.quotedDatabaseIdentifier)
        return try Record.fetchOne(db, sql: "SELECT * FROM \(table) WHERE \(column) = ?", arguments: [value])
    }

    /// Returns whether any write that the gateway has accepted needs a decision, including writes of other devices.
    static func isAnyAccepted(_ db: Database) throws -> Bool {
        try Bool.fetchOne(
            db,
            sql: """
                SELECT EXISTS (
                        SELECT 1 FROM sluice_mutations WHERE \(WriteStatus.needsDecision) AND status <> 'rejected')
                    OR EXISTS (SELECT 1 FROM sluice_others WHERE \(WriteStatus.needsDecision))
                """
        ) ?? false
    }

    /// Returns the oldest failed writes among the writes that the gateway has accepted.
    static func acceptedButFailed(_ db: Database) throws -> [UUID] {
        try String.fetchAll(
            db,
            sql: """
                SELECT id FROM sluice_mutations WHERE \(WriteStatus.needsDecision) AND status <> 'rejected'
                ORDER BY sequence_number LIMIT 20
                """
        ).map(UUID.init(wire:))
    }

    /// Returns the oldest rejected writes for which the gateway has accepted the same key or id with other content.
    static func reused(_ db: Database) throws -> [UUID] {
        try String.fetchAll(
            db,
            sql: """
                SELECT id FROM sluice_mutations
                WHERE \(WriteStatus.needsDecision) AND status = 'rejected' AND json_extract(error, '$.code') IN (
                    SELECT value FROM json_each(?))
                ORDER BY sequence_number LIMIT 20
                """,
            arguments: [JSON.array(MutationResult.reuses.map(JSON.string)).text]
        ).map(UUID.init(wire:))
    }

    /// Returns the failed write with this id.
    static func fetch(_ db: Database, id: UUID) throws -> FailedWrite? {
        try fetch(db, "m.id = ?", [id.wire]).first
    }

    private static func fetch(
        _ db: Database,
        _ condition: String,
        _ arguments: StatementArguments = []
    ) throws -> [FailedWrite] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT m.*, (
                    SELECT i.server_id FROM sluice_id_mappings i WHERE i.entity_type = m.entity_type AND i.key = m.key
                ) AS server_id
                FROM (
                    SELECT id, status, entity_type, key, operation, created_at, error, response,
                        coalesce(edited_payload, payload) AS payload, attempt_count, settle_error, NULL AS device_id,
                        sequence_number
                    FROM sluice_mutations
                    UNION ALL
                    SELECT id, status, entity_type, key, operation, created_at, error, response, payload, attempt_count,
                        settle_error, device_id, sequence_number
                    FROM sluice_others
                ) m
                WHERE \(WriteStatus.needsDecision) AND \(condition)
                ORDER BY m.device_id, m.sequence_number
                """,
            arguments: arguments
        ).map(FailedWrite.init)
    }

    private init(_ row: Row) throws {
        id = try UUID(wire: row["id"])
        reason = Reason(rawValue: row["status"]) ?? .failed
        entityType = row["entity_type"]
        key = row["key"]
        serverID = try row.json("server_id")
        operation = Operation(row["operation"])
        createdAt = Date.fromDatabaseValue(row["created_at"]) ?? .distantPast
        let error = try row.json("error")
        problem = error.map { Problem($0) }
        response = try row.json("response")
        payload = try row.json("payload")
        theirs = error?["current"].flatMap { $0.isNull ? nil : $0 }
        decisionError = row["settle_error"]
        attempts = row["attempt_count"] ?? 0
        deviceID = try (row["device_id"] as String?).map(UUID.init(wire:))
    }
}
