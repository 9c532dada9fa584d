package import FoundationEssentials
import JSONText
package import Postgres
package import SyncModel

/// A mutation with all its properties.
package struct MutationDetail: Sendable {
    /// The columns of a mutation, for a table `m`, and whether further mutations follow the page.
    package static let list = """
        m.id, m.endpoint, m.payload, m.headers, m.dependency_ids, m.priority, m.max_attempts, m.conflict_resolution,
            m.base_version, m.last_error, m.last_error_code, m.created_at,
            \(MutationColumn.shownList)\(RecordColumns.list)
        """

    package private(set) var record: MutationRecord
    /// Whether the list continues after the page of which this mutation is a part.
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
    /// Whether the mutation was captured longer ago than the organization's setting `stale_after_days`.
    package private(set) var isStale = false

    package init(_ row: inout RowReader, user: UUID, _ organizationSeal: Seal) throws {
        let seal = LaneSeal(seal: organizationSeal, user: user)
        self.user = user
        let id: UUID = try row.read("id")
        var unreadable: [String] = []
        endpoint = try row.read("endpoint")
        payload = try seal.read(json: row.read("payload"), .payload, of: id, &unreadable)
        headers = try seal.read(json: row.read("headers"), .headers, of: id, &unreadable)
        dependencyIDs = try row.read("dependency_ids")
        priority = try row.read("priority")
        maxAttempts = try row.read("max_attempts")
        conflictResolution = try row.read("conflict_resolution")
        baseVersion = try row.read("base_version")
        lastError = try seal.read(text: row.read("last_error"), .lastError, of: id, &unreadable)
        lastErrorCode = try row.read("last_error_code")
        createdAt = try row.read("created_at")
        shown = MutationColumn.shown.isEmpty ? [] : try row.read("shown", as: [String].self)
        record = try RecordColumns.record(&row, seal, unreadable: unreadable)
        hasMore = try row.read("has_more")
    }

    /// Returns the mutation with another error.
    func showing(_ error: [UInt8]) -> MutationDetail {
        var detail = self
        detail.record = record.showing(error)
        return detail
    }

    /// The mutation without the contents that its user and the upstream wrote.
    package var redacted: MutationDetail {
        var detail = self
        detail.record = record.redacted
        detail.payload = nil
        detail.headers = nil
        detail.lastError = nil
        return detail
    }

    /// Returns the mutation with ``isStale`` as of the given time, for a response.
    package func seen(in organization: Organization, at now: Timestamp) -> MutationDetail {
        var detail = self
        detail.isStale = createdAt.adding(seconds: Double(organization.settings.staleAfterDays) * 86_400) < now
        return detail
    }
}

/// The filter of a user's list of mutations.
package struct MutationFilter: Sendable, Hashable {
    /// The requested statuses; empty for all.
    package var statuses: [MutationStatus]
    package var deviceID: UUID?
    @Exact package var entityType: String?
    /// The maximum number of mutations, 1 to 1,000.
    package var limit: Int
    /// `next` of the previous page.
    @Exact package var cursor: String?

    package init(
        statuses: [MutationStatus] = [],
        deviceID: UUID? = nil,
        entityType: String? = nil,
        limit: Int = 100,
        cursor: String? = nil
    ) {
        self.statuses = statuses
        self.deviceID = deviceID
        self.entityType = entityType
        self.limit = limit
        self.cursor = cursor
    }

    /// Returns a hash of this filter and of `others`, which are further filter values. Cursors contain the hash.
    ///
    /// The hash does not depend on the limit and the cursor.
    func standIn(excluding others: [String] = []) -> UInt64 {
        FeedCursor.filter(statuses.map(\.rawValue) + [deviceID?.lowercased ?? "-", entityType ?? "-"] + others)
    }
}

/// A page of a list of mutations.
package struct MutationPage: Sendable {
    package let mutations: [MutationDetail]
    /// The cursor of the next page; nil on the last page.
    package let next: String?
}

/// A place in a user's list in lane order. The place is valid only with the filter of the list.
struct MutationCursor {
    let position: Int64
    private let filter: UInt64

    init(_ filter: MutationFilter) throws(Problem) {
        self.filter = filter.standIn()
        guard let cursor = filter.cursor else {
            position = 0
            return
        }
        let parts = cursor.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0] == "m1", let position = Int64(parts[1], radix: 36), position >= 0,
            let made = UInt64(parts[2], radix: 36)
        else { throw .invalidParameter("cursor is invalid") }
        guard made == self.filter else { throw .cursorOfAnotherFilter }
        self.position = position
    }

    func next(_ position: Int64) -> String {
        "m1-" + String(position, radix: 36) + "-" + String(filter, radix: 36)
    }
}

/// A position in an organization's list. The position is valid only with the filter of the list.
struct OrganizationMutationCursor {
    let user: UUID
    let position: Int64
    private let filter: UInt64

    init(_ filter: MutationFilter, _ user: UUID?) throws(Problem) {
        self.filter = filter.standIn(excluding: ["user " + (user?.lowercased ?? "-")])
        guard let cursor = filter.cursor else {
            (self.user, position) = (user ?? UUID.least, 0)
            return
        }
        let parts = cursor.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 4, parts[0] == "o1", let place = UUID(parsing: String(parts[1])),
            let position = Int64(parts[2], radix: 36), position >= 0, let made = UInt64(parts[3], radix: 36)
        else { throw .foreignCursor }
        guard made == self.filter else { throw .cursorOfAnotherFilter }
        (self.user, self.position) = (place, position)
    }

    func next(_ user: UUID, _ position: Int64) -> String {
        "o1." + user.lowercased + "." + String(position, radix: 36) + "." + String(filter, radix: 36)
    }
}

extension Problem {
    package static var cursorOfAnotherFilter: Problem {
        invalidParameter("cursor was issued for another filter; start over without it")
    }

    package static var foreignCursor: Problem { invalidParameter("the query parameter 'cursor' is invalid") }
}
