import Foundation
package import Postgres
package import SyncModel

/// The columns of `mutations` that make a ``QueuedMutation``.
package enum QueuedColumns {
    /// For a table that is called `m`.
    package static let list = MutationColumn.list(of: .queued)

    /// Reads the place in the lane, of a row whose other columns are not read.
    package static func position(_ row: inout RowReader) throws -> Int64 {
        row.skip("id")
        row.skip("accepted_at")
        row.skip("device_id")
        return try row.int64("position")
    }

    /// Reads the columns of ``list``.
    package static func mutation(_ row: inout RowReader, _ seal: LaneSeal) throws -> QueuedMutation {
        let id = try row.uuid("id")
        let acceptedAt = try row.moment("accepted_at")
        var mutation = QueuedMutation(
            id: id,
            deviceID: try row.uuid("device_id"),
            position: try row.int64("position"),
            acceptedAt: acceptedAt,
            operation: try row.choice("operation"),
            entity: try row.entity(),
            maxAttempts: try row.int16("max_attempts"),
            conflictResolution: try row.choice("conflict_resolution")
        )
        var unreadable: [String] = []
        // stored with a settled conflict, for people to read: it is never sent
        var lost: [String] = []
        mutation.endpoint = try row.endpoint()
        mutation.payload = try seal.read(json: row.optionalBytes("payload"), .payload, of: id, &unreadable)
        mutation.headers = try seal.read(json: row.optionalBytes("headers"), .headers, of: id, &unreadable)
        mutation.baseVersion = try row.optionalInt64("base_version")
        mutation.references = try row.references()
        mutation.revision = try row.int32("revision")
        mutation.attemptCount = try row.int16("attempt_count")
        mutation.nextRetryAt = try row.optionalMoment("next_retry_at")
        mutation.resolution = try row.optionalChoice("resolution")
        mutation.isOutcomeUnknown = try row.bool("is_outcome_unknown")
        mutation.conflictRetries = try row.int16("conflict_retries")
        mutation.hold = try hold(&row)
        mutation.override = try sent(&row, seal, of: id, &unreadable)
        mutation.error = try seal.read(json: row.optionalBytes("error"), .error, of: id, &lost)
        mutation.traceparent = try row.optionalString("traceparent")
        mutation.keyUser = try row.optionalUUID("key_user_id")
        mutation.unreadable = unreadable
        return mutation
    }

    private static func hold(_ row: inout RowReader) throws -> AuthBackoff? {
        let count = try row.int16("hold_count")
        return try row.optionalMoment("held_since").map { AuthBackoff(count: count, since: $0) }
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
