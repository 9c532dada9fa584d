public import Foundation
public import GRDB

/// A write that did not take effect, and that requires a person's decision.
///
/// Nothing is lost until then: its row keeps showing it.
///
/// Observe all of them: `ValueObservation.tracking { try FailedWrite.fetchAll($0) }`, or ``SluiceClient/failedWrites``.
public struct FailedWrite: Sendable, Hashable, Identifiable {
    /// Why a write did not take effect.
    public enum Reason: String, Sendable {
        /// The upstream refused it permanently, or could not be reached after too many attempts.
        case failed
        /// Another writer was first; ``theirs`` is the other version. Or the write would leave a reference to a deleted
        /// entity, as the `errors` of ``problem`` show.
        case conflict
        /// The gateway did not take it.
        case rejected
    }

    /// What a write does.
    public enum Operation: Sendable, Hashable, CustomStringConvertible {
        case create, update, replace, delete
        /// A request to the organization's REST API, with this method.
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
    /// Why it did not take effect.
    public let reason: Reason
    /// The entity type's name at the gateway.
    public let entityType: String
    /// The text of the row's key: a lower-case UUID, or decimal digits.
    public let key: String?
    /// The permanent id of its row, in its own JSON kind; nil until the server has given one.
    public let serverID: JSON?
    /// What it does.
    public let operation: Operation
    /// When it was enqueued, by the phone's clock.
    public let createdAt: Date
    /// The reason for the failure.
    public let problem: Problem?
    /// The upstream's response: its status and body, if there was one.
    public let response: JSON?
    /// The payload that was sent, with client ids and server ids as the gateway has them.
    public let payload: JSON?
    /// The server's entity, with `document`, `version`, `etag` and `deleted`, in the gateway's terms; nil if it is
    /// unknown.
    public let theirs: JSON?
    /// Why the gateway did not follow the last decision.
    public let decisionError: String?
    /// How often the gateway has tried to carry it out.
    public let attempts: Int
    /// The other device of the user that left it; nil for a write of this phone. It may be lost, so that only this
    /// phone can settle the write.
    public let deviceID: UUID?

    /// Creates a write that is in no outbox, for previews and tests of an app's views.
    public init(
        id: UUID = UUID(),
        reason: Reason,
        entityType: String,
        key: String? = nil,
        serverID: JSON? = nil,
        operation: Operation = .update,
        createdAt: Date = Date(),
        problem: Problem? = nil,
        response: JSON? = nil,
        payload: JSON? = nil,
        theirs: JSON? = nil,
        decisionError: String? = nil,
        attempts: Int = 0,
        deviceID: UUID? = nil
    ) {
        self.id = id
        self.reason = reason
        self.entityType = entityType
        self.key = key
        self.serverID = serverID
        self.operation = operation
        self.createdAt = createdAt
        self.problem = problem
        self.response = response
        self.payload = payload
        self.theirs = theirs
        self.decisionError = decisionError
        self.attempts = attempts
        self.deviceID = deviceID
    }
}

extension FailedWrite {
    /// Returns all of them, the oldest first, and behind them those that the user's other devices left. A write with a
    /// decision is pending until the gateway has received that.
    public static func fetchAll(_ db: Database) throws -> [FailedWrite] { try fetch(db, "1") }

    /// The conflicts among them.
    public static func fetchConflicts(_ db: Database) throws -> [FailedWrite] { try fetch(db, "m.status = 'conflict'") }

    /// Those of a row.
    public static func fetchAll(_ db: Database, of entityType: String, key: String) throws -> [FailedWrite] {
        try fetch(db, "m.entity_type = ? AND m.key = ?", [entityType, key])
    }

    /// Returns the row as it is shown, with the phone's writes; nil if the table does not have it.
    ///
    /// ``SluiceClient/theirs(of:as:in:)`` returns the server's version.
    ///
    /// - Throws: ``SluiceError/configuration(_:)`` for a record that is not of the write's type; errors of the record's
    ///   decoding.
    public func record<Record: Syncable & FetchableRecord>(as type: Record.Type, in db: Database) throws -> Record? {
        let sync = Record.sync
        guard sync.entityType == entityType else {
            throw SluiceError.configuration("the write is of '\(entityType)' and not of '\(sync.entityType)'")
        }
        guard let value = key.flatMap(sync.key.databaseValue(of:)) else { return nil }
        let (table, column) = (sync.table.quotedDatabaseIdentifier, sync.key.column.quotedDatabaseIdentifier)
        return try Record.fetchOne(db, sql: "SELECT * FROM \(table) WHERE \(column) = ?", arguments: [value])
    }

    /// The oldest ones that the gateway has taken.
    static func acceptedButFailed(_ db: Database) throws -> [UUID] {
        try String.fetchAll(
            db,
            sql: """
                SELECT id FROM sluice_mutations WHERE \(WriteStatus.needsDecision) AND status <> 'rejected'
                ORDER BY sequence_number LIMIT 20
                """
        ).map(UUID.init(wire:))
    }

    /// One of them.
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
