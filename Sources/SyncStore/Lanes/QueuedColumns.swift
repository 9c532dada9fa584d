import Foundation
import Postgres
import SyncModel

/// The columns of `mutations` that a ``QueuedMutation`` is made of, and how.
enum QueuedColumns {
    /// For a table that is called `m`.
    static let list = """
        m.id, m.device_id, m.position, m.accepted_at, m.operation, m.entity_type, m.local_id, m.server_id,
            m.server_id_is_integer, m.endpoint, m.payload, m.headers, m.base_version, m.reference_ids, m.revision,
            m.attempt_count, m.max_attempts, m.next_retry_at, m.conflict_resolution, m.resolution,
            m.is_outcome_unknown, m.conflict_retries, m.sent_method, m.sent_endpoint, m.sent_payload, m.error,
            m.traceparent, m.local_number, m.hold_count, m.held_since, m.reference_types
        """

    /// How many there are.
    static let count = 31

    /// Which of them is its place in the lane.
    static let position = 2

    /// Reads a mutation from the columns that start at `first`.
    static func mutation(_ rows: Rows, _ row: Int, from first: Int, _ seal: LaneSeal) throws -> QueuedMutation {
        let id = try rows.uuid(row, first)
        let references = try rows.optionalUUIDs(row, first + 13) ?? []
        var unreadable: [String] = []
        let payload = try seal.read(json: rows.optionalBytes(row, first + 10), .payload, of: id, &unreadable)
        let headers = try seal.read(json: rows.optionalBytes(row, first + 11), .headers, of: id, &unreadable)
        let sent = try seal.read(json: rows.optionalBytes(row, first + 24), .sentPayload, of: id, &unreadable)
        // kept beside a settled conflict, for people to read: nothing is sent of it
        var lost: [String] = []
        let error = try seal.read(json: rows.optionalBytes(row, first + 25), .error, of: id, &lost)
        return QueuedMutation(
            id: id,
            deviceID: try rows.uuid(row, first + 1),
            position: try rows.int64(row, first + 2),
            acceptedAt: Timestamp(microseconds: try rows.timestamp(row, first + 3)),
            operation: try rows.choice(row, first + 4),
            entityType: try rows.string(row, first + 5),
            localID: try rows.optionalUUID(row, first + 6),
            localNumber: try rows.optionalInt64(row, first + 27),
            serverID: try rows.serverID(row, first + 7),
            endpoint: try rows.optionalString(row, first + 9),
            payload: payload,
            headers: headers,
            baseVersion: try rows.optionalInt64(row, first + 12),
            references: references,
            referenceTypes: try rows.referenceTypes(row, first + 30, of: references),
            revision: try rows.int32(row, first + 14),
            attemptCount: try rows.int16(row, first + 15),
            maxAttempts: try rows.int16(row, first + 16),
            nextRetryAt: try rows.optionalTimestamp(row, first + 17).map(Timestamp.init(microseconds:)),
            strategy: try rows.choice(row, first + 18),
            resolution: try rows.optionalChoice(row, first + 19),
            isOutcomeUnknown: try rows.bool(row, first + 20),
            conflictRetries: try rows.int16(row, first + 21),
            hold: try rows.optionalTimestamp(row, first + 29).map { since in
                MutationHold(count: try rows.int16(row, first + 28), since: Timestamp(microseconds: since))
            },
            override: try rows.optionalString(row, first + 22).map { method in
                SentRequest(
                    method: method,
                    endpoint: try rows.optionalString(row, first + 23),
                    payload: sent
                )
            },
            error: error,
            traceparent: try rows.optionalString(row, first + 26),
            unreadable: unreadable
        )
    }
}

extension Rows {
    /// The types of client ids that stand beside them; none where they were not noted.
    func referenceTypes(_ row: Int, _ column: Int, of references: [UUID]) throws(PostgresError) -> [UUID: String] {
        guard !references.isEmpty, let types = try optionalStrings(row, column) else { return [:] }
        return Dictionary(zip(references, types)) { first, _ in first }
    }
}
