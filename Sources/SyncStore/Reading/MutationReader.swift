package import Foundation
import JSONText
import Postgres
package import SyncModel

/// What a user's list of mutations is narrowed to.
package struct MutationFilter: Sendable, Hashable {
    /// Empty for all.
    package var statuses: [MutationStatus]
    /// Only mutations of this device.
    package var deviceID: UUID?
    /// Only mutations of this type.
    package var entityType: String?
    /// 1 to 1,000.
    package var limit: Int
    /// `next` of the page before.
    package var cursor: String?

    /// Creates a filter; the defaults let everything through.
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
}

/// Reads mutations back, one user's own at a time.
package struct MutationReader: Sendable {
    /// How long a waiting reader pauses between two looks at least.
    static let breath: Duration = .milliseconds(2)
    /// Bytes of payloads and answers on one page of a list; a page holds one mutation at least.
    static let pageBytes: Int64 = 2_097_152

    let pool: Pool
    let catalog: Catalog
    let now: TimeSource
    let stuckMutations: StuckMutations
    let notifier: ChangeNotifier
    let failure: StoreFailure

    /// One mutation with all its attributes, JSON; nil when the user has none of that id.
    ///
    /// - Parameters:
    ///   - wait: how long to wait for it to be settled.
    ///   - room: taken for what is read.
    package func mutation(
        _ id: UUID,
        organization: Organization,
        user: UUID,
        wait: Duration,
        room: PageRoom = .unbounded
    ) async throws(Problem) -> [UInt8]? {
        let deadline = ContinuousClock.now + wait
        let lane = LaneKey(organization: organization.id, user: user)
        return try await notifier.watching(lane: lane) { watch throws(Problem) in
            while true {
                try await room.enter()
                guard let found = try await details([id], organization, user).first else { return nil }
                if .now >= deadline { return found.json(organization, now()) }
                if await isSettled(found.record, lane) { return found.json(organization, now()) }
                room.leave()
                try await pause(watch, until: deadline)
            }
        }
    }

    /// A page of the user's mutations in lane order: `{"mutations":[…],"next"}`.
    package func list(
        _ filter: MutationFilter,
        organization: Organization,
        user: UUID
    ) async throws(Problem) -> [UInt8] {
        let after = try ListCursor(filter)
        var parameters = Parameters(of: LaneKey(organization: organization.id, user: user))
        parameters.add(after.position)
        parameters.add(filter.statuses.map(\.rawValue))
        parameters.add(filter.deviceID)
        parameters.add(filter.entityType)
        parameters.add(Int64(filter.limit + 1))
        parameters.add(Self.pageBytes)
        let found: [MutationDetail]
        do {
            found = try await catalog.opening(organization.id) { [parameters] seal in
                let rows = try await pool.run([Query(Self.listStatement, parameters)])[0]
                return try rows.read { try MutationDetail(&$0, user: user, seal) }
            }
        } catch {
            throw failure.problem(error, doing: "list mutations")
        }
        let page = found.prefix(filter.limit)
        let hasMore = found.last?.hasMore ?? false || found.count > filter.limit
        let next = hasMore ? page.last.map { after.next($0.record.position) } : nil
        return json(page, of: organization, next: next)
    }

    /// `{"mutations":[…],"next"}`
    func json(_ page: some Sequence<MutationDetail>, of organization: Organization, next: String?) -> [UInt8] {
        let moment = now()
        var writer = JSONWriter()
        writer.beginObject()
        writer.name("mutations")
        writer.beginArray()
        for detail in page { writer.raw(detail.json(organization, moment)) }
        writer.endArray()
        writer.member("next", next)
        writer.endObject()
        return writer.bytes
    }

    // MARK: - Steps

    private func details(
        _ ids: [UUID],
        _ organization: Organization,
        _ user: UUID
    ) async throws(Problem) -> [MutationDetail] {
        var parameters = Parameters(of: LaneKey(organization: organization.id, user: user))
        parameters.add(ids)
        do {
            return try await catalog.opening(organization.id) { [parameters] seal in
                let rows = try await pool.run([Query(Self.byIDStatement, parameters)])[0]
                return try rows.read { try MutationDetail(&$0, user: user, seal) }
            }
        } catch {
            throw failure.problem(error, doing: "read mutations")
        }
    }

    private func isSettled(_ record: MutationRecord, _ lane: LaneKey) async -> Bool {
        guard record.status == .blocked else { return record.status.isSettled }
        let stuck = await stuckMutations.stuck(among: [record], organization: lane.organization, user: lane.user)
        return stuck.contains(record.id)
    }

    /// Waits for a change to the lane. One that works through many mutations changes with each, so there is a pause in
    /// any case.
    func pause(_ watch: Watch, until deadline: ContinuousClock.Instant) async throws(Problem) {
        _ = await watch.news(within: deadline - .now)
        do { try await Task.sleep(for: Self.breath) } catch {
            throw Problem.overloaded("the request was given up")
        }
    }

    // MARK: - Statements

    static let byIDStatement = Statement(
        "mutations_by_id",
        """
        SELECT \(MutationDetail.list), false AS has_more
        FROM mutations m
        WHERE m.organization_id = $1 AND m.user_id = $2 AND m.id = ANY ($3::uuid[])
        """
    )

    /// Reads one mutation more than the page holds. The window counts bytes, so that a page of large payloads ends
    /// early instead of filling the memory.
    static let listStatement = Statement(
        "mutations_list",
        """
        SELECT \(MutationDetail.list), m.has_more
        FROM (
            SELECT p.*, sum(p.bytes) OVER w - p.bytes AS bytes_before,
                sum(p.bytes) OVER w > $8 AS has_more
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
