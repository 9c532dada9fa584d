import Foundation
import Postgres
import SyncModel

/// The columns of `mutations` that a ``MutationRecord`` is made of, and how.
enum RecordColumns {
    /// For a table that is called `m`.
    static let list = """
        m.id, m.idempotency_key, m.device_id, m.sequence_number, m.position, m.operation, m.entity_type, m.status,
            m.revision, m.local_id, m.server_id, m.server_id_is_integer, m.version, m.attempt_count, m.next_retry_at,
            \(Dependencies.open), m.resolution, m.response_status, m.response_body, m.error, m.fingerprint, m.accepted_at,
            m.synced_at, m.local_number, m.fingerprint_places, m.etag
        """

    /// How many there are.
    static let count = 26

    /// Reads a record from the columns that start at `first`.
    ///
    /// - Parameter besides: members that are read from other columns and cannot be opened.
    static func record(
        _ rows: Rows,
        _ row: Int,
        from first: Int = 0,
        _ seal: LaneSeal,
        besides: [String] = []
    ) throws -> MutationRecord {
        let id = try rows.uuid(row, first)
        var unreadable = besides
        let body = try seal.read(json: rows.optionalBytes(row, first + 18), .responseBody, of: id, &unreadable)
        let error = try seal.read(json: rows.optionalBytes(row, first + 19), .error, of: id, &unreadable)
        return MutationRecord(
            id: id,
            idempotencyKey: try rows.uuid(row, first + 1),
            deviceID: try rows.uuid(row, first + 2),
            sequenceNumber: try rows.int64(row, first + 3),
            position: try rows.int64(row, first + 4),
            operation: try rows.choice(row, first + 5),
            entityType: try rows.string(row, first + 6),
            status: try rows.choice(row, first + 7),
            revision: try rows.int32(row, first + 8),
            localID: try rows.optionalUUID(row, first + 9),
            localNumber: try rows.optionalInt64(row, first + 23),
            serverID: try rows.serverID(row, first + 10),
            version: try rows.optionalInt64(row, first + 12),
            etag: try rows.optionalString(row, first + 25),
            attemptCount: try rows.int16(row, first + 13),
            nextRetryAt: try rows.optionalTimestamp(row, first + 14).map(Timestamp.init(microseconds:)),
            dependsOn: try rows.uuids(row, first + 15),
            resolution: try rows.optionalChoice(row, first + 16),
            responseStatus: try rows.optionalInt16(row, first + 17),
            responseBody: body,
            error: error,
            fingerprint: Fingerprint(
                stored: try rows.bytes(row, first + 20),
                places: try rows.optionalBytes(row, first + 24)
            ),
            acceptedAt: Timestamp(microseconds: try rows.timestamp(row, first + 21)),
            syncedAt: try rows.optionalTimestamp(row, first + 22).map(Timestamp.init(microseconds:)),
            unreadable: unreadable
        )
    }
}

extension Rows {
    /// A server id that stands in two neighbouring columns: its text and whether it is an integer.
    func serverID(_ row: Int, _ column: Int) throws(PostgresError) -> ServerID? {
        guard let text = try optionalString(row, column) else { return nil }
        return ServerID(text: text, isInteger: try bool(row, column + 1))
    }

    /// One of the names that a CHECK allows.
    func choice<Value: RawRepresentable<String>>(_ row: Int, _ column: Int) throws(PostgresError) -> Value {
        let text = try string(row, column)
        guard let value = Value(rawValue: text) else {
            throw PostgresError(.decoding, "'\(text)' is no \(Value.self)")
        }
        return value
    }

    /// One of the names that a CHECK allows, or nil.
    func optionalChoice<Value: RawRepresentable<String>>(_ row: Int, _ column: Int) throws(PostgresError) -> Value? {
        isNull(row, column) ? nil : try choice(row, column)
    }
}
