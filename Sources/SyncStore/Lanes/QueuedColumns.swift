import Foundation
import Postgres
import SyncModel

/// The columns of `mutations` that a ``QueuedMutation`` is made of, and how.
enum QueuedColumns {
    /// For a table that is called `m`.
    static let list = """
        m.id, m.device_id, m.position, m.accepted_at, m.operation, m.entity_type, m.local_id, m.local_number,
            m.server_id, m.server_id_is_integer, m.endpoint, m.payload, m.headers, m.base_version, m.reference_ids,
            m.reference_types, m.revision, m.attempt_count, m.max_attempts, m.next_retry_at, m.conflict_resolution,
            m.resolution, m.is_outcome_unknown, m.conflict_retries, m.hold_count, m.held_since, m.sent_method,
            m.sent_endpoint, m.sent_payload, m.error, m.traceparent
        """

    /// Reads the place in the lane, of a row that is read no further.
    static func position(_ row: inout RowReader) throws -> Int64 {
        row.skip("id")
        row.skip("device_id")
        return try row.int64("position")
    }

    /// Reads what ``list`` names.
    static func mutation(_ row: inout RowReader, _ seal: LaneSeal) throws -> QueuedMutation {
        let id = try row.uuid("id")
        var unreadable: [String] = []
        // kept beside a settled conflict, for people to read: nothing is sent of it
        var lost: [String] = []
        let deviceID = try row.uuid("device_id")
        let position = try row.int64("position")
        let acceptedAt = try row.moment("accepted_at")
        let operation: SyncModel.Operation = try row.choice("operation")
        let entityType = try row.string("entity_type")
        let localID = try row.optionalUUID("local_id")
        let localNumber = try row.optionalInt64("local_number")
        let serverID = try row.serverID()
        let endpoint = try row.optionalString("endpoint")
        let payload = try seal.read(json: row.optionalBytes("payload"), .payload, of: id, &unreadable)
        let headers = try seal.read(json: row.optionalBytes("headers"), .headers, of: id, &unreadable)
        let baseVersion = try row.optionalInt64("base_version")
        let references = try row.optionalUUIDs("reference_ids") ?? []
        return QueuedMutation(
            id: id,
            deviceID: deviceID,
            position: position,
            acceptedAt: acceptedAt,
            operation: operation,
            entityType: entityType,
            localID: localID,
            localNumber: localNumber,
            serverID: serverID,
            endpoint: endpoint,
            payload: payload,
            headers: headers,
            baseVersion: baseVersion,
            references: references,
            referenceTypes: try row.referenceTypes(of: references),
            revision: try row.int32("revision"),
            attemptCount: try row.int16("attempt_count"),
            maxAttempts: try row.int16("max_attempts"),
            nextRetryAt: try row.optionalMoment("next_retry_at"),
            strategy: try row.choice("conflict_resolution"),
            resolution: try row.optionalChoice("resolution"),
            isOutcomeUnknown: try row.bool("is_outcome_unknown"),
            conflictRetries: try row.int16("conflict_retries"),
            hold: try hold(&row),
            override: try sent(&row, seal, of: id, &unreadable),
            error: try seal.read(json: row.optionalBytes("error"), .error, of: id, &lost),
            traceparent: try row.optionalString("traceparent"),
            unreadable: unreadable
        )
    }

    private static func hold(_ row: inout RowReader) throws -> MutationHold? {
        let count = try row.int16("hold_count")
        return try row.optionalMoment("held_since").map { MutationHold(count: count, since: $0) }
    }

    private static func sent(
        _ row: inout RowReader,
        _ seal: LaneSeal,
        of id: UUID,
        _ unreadable: inout [String]
    ) throws -> SentRequest? {
        let method = try row.optionalString("sent_method")
        let endpoint = try row.optionalString("sent_endpoint")
        let payload = try seal.read(json: row.optionalBytes("sent_payload"), .sentPayload, of: id, &unreadable)
        return method.map { SentRequest(method: $0, endpoint: endpoint, payload: payload) }
    }
}
