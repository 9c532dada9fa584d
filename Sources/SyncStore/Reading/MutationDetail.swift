import Foundation
import JSONText
import Postgres
import SyncModel

/// A mutation with all its attributes.
struct MutationDetail {
    /// Its columns, for a table that is called `m`; then comes whether the page ends here.
    static let list = """
        m.id, m.endpoint, m.payload, m.headers, m.dependency_ids, m.priority, m.max_attempts, m.conflict_resolution,
            m.base_version, m.last_error, m.last_error_code, m.created_at,
            \(RecordColumns.list)
        """

    let record: MutationRecord
    let hasMore: Bool
    private let user: UUID
    private let endpoint: String?
    private let payload: [UInt8]?
    private let headers: [UInt8]?
    private let dependencyIDs: [UUID]
    private let priority: Int16
    private let maxAttempts: Int16
    private let conflictResolution: String
    private let baseVersion: Int64?
    private let lastError: String?
    private let lastErrorCode: Int32?
    private let createdAt: Timestamp

    init(_ row: inout RowReader, user: UUID, _ organizationSeal: Seal) throws {
        let seal = LaneSeal(seal: organizationSeal, user: user)
        self.user = user
        let id = try row.uuid("id")
        var unreadable: [String] = []
        endpoint = try row.optionalString("endpoint")
        payload = try seal.read(json: row.optionalBytes("payload"), .payload, of: id, &unreadable)
        headers = try seal.read(json: row.optionalBytes("headers"), .headers, of: id, &unreadable)
        dependencyIDs = try row.uuids("dependency_ids")
        priority = try row.int16("priority")
        maxAttempts = try row.int16("max_attempts")
        conflictResolution = try row.string("conflict_resolution")
        baseVersion = try row.optionalInt64("base_version")
        lastError = try seal.read(text: row.optionalString("last_error"), .lastError, of: id, &unreadable)
        lastErrorCode = try row.optionalInt32("last_error_code")
        createdAt = try row.moment("created_at")
        record = try RecordColumns.record(&row, seal, unreadable: unreadable)
        hasMore = try row.bool("has_more")
    }

    /// The mutation as it is answered.
    ///
    /// - Parameter more: writes further members.
    func json(
        _ organization: Organization,
        _ now: Timestamp,
        _ more: (inout JSONWriter) -> Void = { _ in }
    ) -> [UInt8] {
        let staleAfter = Double(organization.settings.staleAfterDays) * 86_400
        var writer = JSONWriter()
        writer.beginObject()
        record.writeResultMembers(replayed: nil, to: &writer)
        writer.member("user_id", user)
        writer.member("device_id", record.deviceID)
        writer.member("operation", record.operation.rawValue)
        writer.member("entity_type", record.entity.type)
        writer.member("endpoint", endpoint)
        writer.member("payload", raw: payload)
        writer.member("headers", raw: headers)
        writer.name("dependency_ids")
        writer.beginArray()
        for id in dependencyIDs { writer.uuid(id) }
        writer.endArray()
        writer.member("priority", Int64(priority))
        writer.member("max_attempts", Int64(maxAttempts))
        writer.member("conflict_resolution", conflictResolution)
        writer.member("base_version", baseVersion)
        writer.member("last_error", lastError)
        writer.member("last_error_code", lastErrorCode.map(Int64.init))
        writer.member("created_at", createdAt.rfc3339)
        writer.member("accepted_at", record.acceptedAt.rfc3339)
        writer.member("synced_at", record.syncedAt?.rfc3339)
        writer.member("stale", createdAt.adding(seconds: staleAfter) < now)
        more(&writer)
        writer.endObject()
        return writer.bytes
    }
}
