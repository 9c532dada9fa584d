package import Foundation
package import Postgres
package import SyncModel

/// A mutation with all its attributes.
package struct MutationDetail: Sendable {
    /// Its columns, for a table `m`; followed by whether the page ends here.
    static let list = """
        m.id, m.endpoint, m.payload, m.headers, m.dependency_ids, m.priority, m.max_attempts, m.conflict_resolution,
            m.base_version, m.last_error, m.last_error_code, m.created_at,
            \(MutationColumn.shownList)\(RecordColumns.list)
        """

    package private(set) var record: MutationRecord
    /// Whether others follow among those that were read for the page.
    let hasMore: Bool
    package let user: UUID
    package let endpoint: String?
    package private(set) var payload: [UInt8]?
    package private(set) var headers: [UInt8]?
    package let dependencyIDs: [UUID]
    package let priority: Int16
    package let maxAttempts: Int16
    package let conflictResolution: String
    package let baseVersion: Int64?
    package private(set) var lastError: String?
    package let lastErrorCode: Int32?
    package let createdAt: Timestamp
    /// The values of ``MutationColumn/shown``, as JSON.
    package let shown: [String]
    /// Whether it is older than the organization's limit for fresh mutations.
    ///
    /// The age counts from its acceptance.
    package private(set) var isStale = false

    package init(_ row: inout RowReader, user: UUID, _ organizationSeal: Seal) throws {
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
        shown = MutationColumn.shown.isEmpty ? [] : try row.strings("shown")
        record = try RecordColumns.record(&row, seal, unreadable: unreadable)
        hasMore = try row.bool("has_more")
    }

    /// The mutation with another error.
    func showing(_ error: [UInt8]) -> MutationDetail {
        var detail = self
        detail.record = record.showing(error)
        return detail
    }

    /// The mutation without what its user and the upstream wrote.
    package var redacted: MutationDetail {
        var detail = self
        detail.record = record.redacted
        detail.payload = nil
        detail.headers = nil
        detail.lastError = nil
        return detail
    }

    /// The mutation as it is shown at a moment.
    package func seen(in organization: Organization, at now: Timestamp) -> MutationDetail {
        var detail = self
        detail.isStale = createdAt.adding(seconds: Double(organization.settings.staleAfterDays) * 86_400) < now
        return detail
    }
}
