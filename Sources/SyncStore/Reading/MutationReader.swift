public import Foundation
import JSONText
import Postgres
public import SyncModel

/// What a user's list of mutations is narrowed to.
public struct MutationFilter: Sendable, Hashable {
    /// Empty for all.
    public var statuses: [MutationStatus]
    /// Only mutations of this device.
    public var deviceID: UUID?
    /// Only mutations of this type.
    public var entityType: String?
    /// 1 to 1,000.
    public var limit: Int
    /// `next` of the page before.
    public var cursor: String?

    /// Creates a filter; the defaults let everything through.
    public init(
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
}

/// Reads mutations back, one user's own at a time.
public struct MutationReader: Sendable {
    /// How often a waiting reader looks again.
    static let pollInterval: Duration = .milliseconds(250)
    /// How long a waiting reader pauses between two looks at least.
    static let breath: Duration = .milliseconds(2)
    /// Bytes of payloads and answers on one page of a list; a page holds one mutation at least.
    static let pageBytes: Int64 = 8_388_608

    let pool: Pool
    let now: TimeSource
    let settledness: Settledness
    let signals: LaneSignals
    let failure: StoreFailure

    /// One mutation with all its attributes, JSON; nil when the user has none of that id.
    ///
    /// - Parameter wait: how long to wait for it to be settled.
    public func mutation(
        _ id: UUID,
        organization: Organization,
        user: UUID,
        wait: Duration
    ) async throws(Problem) -> [UInt8]? {
        let deadline = ContinuousClock.now + wait
        let lane = LaneKey(organization: organization.id, user: user)
        return try await signals.watching(lane) { watch throws(Problem) in
            while true {
                guard let found = try await details([id], organization, user).first else { return nil }
                let isSettled = try await isSettled([found.record], organization, user)
                if isSettled || .now >= deadline { return found.json(organization, now()) }
                try await pause(watch, until: deadline)
            }
        }
    }

    /// A page of the user's mutations in lane order: `{"mutations":[…],"next"}`.
    public func list(
        _ filter: MutationFilter,
        organization: Organization,
        user: UUID
    ) async throws(Problem) -> [UInt8] {
        let after = try ListCursor(filter)
        var parameters = Parameters()
        parameters.add(organization.id)
        parameters.add(user)
        parameters.add(after.position)
        parameters.add(filter.statuses.map(\.rawValue))
        parameters.add(filter.deviceID)
        parameters.add(filter.entityType)
        parameters.add(Int64(filter.limit + 1))
        parameters.add(Self.pageBytes)
        let found: [Detail]
        do {
            let rows = try await pool.run([Query(Self.listStatement, parameters)])[0]
            found = try (0..<rows.count).map { try Detail(rows, $0, user: user) }
        } catch {
            throw failure.problem(error, doing: "list mutations")
        }
        let moment = now()
        var writer = JSONWriter()
        writer.beginObject()
        writer.name("mutations")
        writer.beginArray()
        let page = found.prefix(filter.limit)
        for detail in page { writer.raw(detail.json(organization, moment)) }
        writer.endArray()
        let hasMore = found.last?.hasMore ?? false || found.count > filter.limit
        writer.member("next", hasMore ? page.last.map { after.next($0.record.position) } : nil)
        writer.endObject()
        return writer.bytes
    }

    // MARK: - Steps

    private func details(
        _ ids: [UUID],
        _ organization: Organization,
        _ user: UUID
    ) async throws(Problem) -> [Detail] {
        var parameters = Parameters()
        parameters.add(organization.id)
        parameters.add(user)
        parameters.add(ids)
        do {
            let rows = try await pool.run([Query(Self.byIDStatement, parameters)])[0]
            return try (0..<rows.count).map { try Detail(rows, $0, user: user) }
        } catch {
            throw failure.problem(error, doing: "read mutations")
        }
    }

    private func isSettled(
        _ records: [MutationRecord],
        _ organization: Organization,
        _ user: UUID
    ) async throws(Problem) -> Bool {
        let open = records.filter { !$0.status.isSettled }
        guard open.allSatisfy({ $0.status == .blocked }) else { return false }
        let stuck = try await settledness.stuck(open.map(\.id), organization: organization.id, user: user)
        return stuck.count == open.count
    }

    /// Waits for a change that this process makes to the lane, or a little while: another replica may have made one. A
    /// lane that works through many mutations changes with each, so there is a pause in any case.
    func pause(_ watch: LaneWatch, until deadline: ContinuousClock.Instant) async throws(Problem) {
        await watch.change(within: min(deadline - .now, Self.pollInterval))
        do { try await Task.sleep(for: Self.breath) } catch {
            throw StoreFailure.overloaded("the request was given up")
        }
    }

    // MARK: - Statements

    private static let attributes = """
        m.endpoint, m.payload, m.headers, m.dependency_ids, m.priority, m.max_attempts, m.conflict_resolution,
            m.base_version, m.last_error, m.last_error_code, m.created_at
        """

    static let byIDStatement = Statement(
        "mutations_by_id",
        """
        SELECT \(RecordColumns.list), \(attributes), false
        FROM mutations m
        WHERE m.organization_id = $1 AND m.user_id = $2 AND m.id = ANY ($3::uuid[])
        """
    )

    /// Reads one mutation more than the page holds. The window counts bytes, so that a page of large payloads ends
    /// early instead of filling the memory.
    static let listStatement = Statement(
        "mutations_list",
        """
        SELECT \(RecordColumns.list), \(attributes), m.is_last_that_fits
        FROM (
            SELECT p.*, sum(p.bytes) OVER w - p.bytes AS bytes_before,
                sum(p.bytes) OVER w > $8 AS is_last_that_fits
            FROM (
                SELECT x.*, coalesce(octet_length(x.payload::text), 0)
                    + coalesce(octet_length(x.response_body::text), 0)
                    + coalesce(octet_length(x.error::text), 0) AS bytes
                FROM mutations x
                WHERE x.organization_id = $1 AND x.user_id = $2 AND x.position > $3
                    AND (cardinality($4::text[]) = 0 OR x.status = ANY ($4))
                    AND ($5::uuid IS NULL OR x.device_id = $5)
                    AND ($6::text IS NULL OR x.entity_type = $6)
                ORDER BY x.position
                LIMIT $7
            ) p
            WINDOW w AS (ORDER BY p.position)
        ) m
        WHERE m.bytes_before <= $8
        ORDER BY m.position
        """
    )
}

/// A mutation with all its attributes.
private struct Detail {
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

    init(_ rows: Rows, _ row: Int, user: UUID) throws {
        let first = RecordColumns.count
        self.user = user
        record = try RecordColumns.record(rows, row)
        endpoint = try rows.optionalString(row, first)
        payload = try rows.optionalBytes(row, first + 1)
        headers = try rows.optionalBytes(row, first + 2)
        dependencyIDs = try rows.uuids(row, first + 3)
        priority = try rows.int16(row, first + 4)
        maxAttempts = try rows.int16(row, first + 5)
        conflictResolution = try rows.string(row, first + 6)
        baseVersion = try rows.optionalInt64(row, first + 7)
        lastError = try rows.optionalString(row, first + 8)
        lastErrorCode = try rows.optionalInt32(row, first + 9)
        createdAt = Timestamp(microseconds: try rows.timestamp(row, first + 10))
        hasMore = try rows.bool(row, first + 11)
    }

    func json(_ organization: Organization, _ now: Timestamp) -> [UInt8] {
        let staleAfter = Double(organization.settings.staleAfterDays) * 86_400
        var writer = JSONWriter()
        writer.beginObject()
        record.writeResultMembers(replayed: nil, to: &writer)
        writer.member("user_id", user)
        writer.member("device_id", record.deviceID)
        writer.member("operation", record.operation.rawValue)
        writer.member("entity_type", record.entityType)
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
        writer.endObject()
        return writer.bytes
    }
}

/// A place in a list in lane order, bound to the filter that it was made with.
private struct ListCursor {
    let position: Int64
    private let filter: UInt64

    init(_ filter: MutationFilter) throws(Problem) {
        let names =
            filter.statuses.map(\.rawValue) + [filter.deviceID?.lowercased ?? "-", filter.entityType ?? "-"]
        self.filter = FeedCursor.filter(names)
        guard let cursor = filter.cursor else {
            position = 0
            return
        }
        let parts = cursor.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0] == "m1", let position = Int64(parts[1], radix: 36), position >= 0,
            let made = UInt64(parts[2], radix: 36)
        else { throw Problem(.invalidRequest, pointer: "", rule: "parameter_invalid", "cursor is not one of ours") }
        guard made == self.filter else {
            let detail = "cursor was made with another filter; start over without it"
            throw Problem(.invalidRequest, pointer: "", rule: "parameter_invalid", detail)
        }
        self.position = position
    }

    func next(_ position: Int64) -> String {
        "m1-" + String(position, radix: 36) + "-" + String(filter, radix: 36)
    }
}
