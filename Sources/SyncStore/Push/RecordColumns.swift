import Postgres
import SyncModel

/// The columns of `mutations` that make a ``MutationRecord``.
enum RecordColumns {
    /// For a table that is called `m`.
    static let list = """
        m.id, m.idempotency_key, m.device_id, m.sequence_number, m.position, m.operation, \(EntityName.list), m.status,
            m.revision, m.version, m.etag, m.attempt_count, m.next_retry_at, \(Dependencies.open) AS depends_on, m.resolution, m.response_status,
            m.response_body, m.error, m.fingerprint, m.fingerprint_places, m.accepted_at, m.synced_at
        """

    /// Reads the columns of ``list``. The record names members that could not be opened, after those in `unreadable`.
    static func record(
        _ row: inout RowReader,
        _ seal: LaneSeal,
        unreadable: [String] = []
    ) throws -> MutationRecord {
        let id = try row.uuid("id")
        var unreadable = unreadable
        return MutationRecord(
            id: id,
            idempotencyKey: try row.uuid("idempotency_key"),
            deviceID: try row.uuid("device_id"),
            sequenceNumber: try row.int64("sequence_number"),
            position: try row.int64("position"),
            operation: try row.choice("operation"),
            entity: try row.entity(),
            status: try row.choice("status"),
            revision: try row.int32("revision"),
            version: try row.optionalInt64("version"),
            etag: try row.optionalString("etag"),
            attemptCount: try row.int16("attempt_count"),
            nextRetryAt: try row.optionalMoment("next_retry_at"),
            dependsOn: try row.uuids("depends_on"),
            resolution: try row.optionalChoice("resolution"),
            responseStatus: try row.optionalInt16("response_status"),
            responseBody: try seal.read(json: row.optionalBytes("response_body"), .responseBody, of: id, &unreadable),
            error: try seal.read(json: row.optionalBytes("error"), .error, of: id, &unreadable),
            fingerprint: Fingerprint(
                stored: try row.bytes("fingerprint"),
                places: try row.optionalBytes("fingerprint_places")
            ),
            acceptedAt: try row.moment("accepted_at"),
            syncedAt: try row.optionalMoment("synced_at"),
            unreadable: unreadable
        )
    }
}
