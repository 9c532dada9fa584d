import JSONText
import Postgres
package import SyncModel
import SyncStore

/// A user's open mutations in the order of the lane, a page at a time, and the lane itself.
package struct LaneListing: Sendable {
    /// An open mutation, without what its user wrote.
    package struct Mutation: Sendable {
        package let base: Backlog.Mutation
        package let entity: EntityName
        package let errorCode: String?
        package let responseStatus: Int16?
        /// Since when it is in its status.
        package let changedAt: Timestamp
        /// Whether others follow it.
        let hasMore: Bool
    }

    package struct Page: Sendable {
        /// Nil for a user without a lane.
        package let lane: LaneState?
        package let mutations: [Mutation]
        package let next: String?
    }

    /// Ids of mutations that the others on a page wait for.
    ///
    /// A page has one mutation at least.
    private static let blockers = 1_048_576 / WorkBounds.listedID

    let pool: Pool
    let failure: StoreFailure

    /// - Parameters:
    ///   - limit: 1 to 1,000.
    ///   - cursor: `next` of the page before.
    package func page(of lane: LaneKey, limit: Int, cursor: String?) async throws(Problem) -> Page {
        let start = try Self.position(cursor)
        do {
            let results = try await pool.readByIndex([
                Self.laneStatement(organization: lane.organization, user: lane.user),
                Self.pageStatement(
                    organization: lane.organization,
                    user: lane.user,
                    after: start,
                    limit: Int64(limit + 1)
                ),
            ])
            let state = try results[0].read { try LaneRows.read(&$0).state }.first
            let found = try results[1].read(Mutation.init)
            let page = Array(found.prefix(limit))
            let next = page.last?.hasMore == true ? page.last.map { "l1." + String($0.base.position, radix: 36) } : nil
            return Page(lane: state, mutations: page, next: next)
        } catch {
            throw failure.problem(error, doing: "read a lane")
        }
    }

    private static func position(_ cursor: String?) throws(Problem) -> Int64 {
        guard let cursor else { return 0 }
        let parts = cursor.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[0] == "l1", let position = Int64(parts[1], radix: 36), position >= 0 else {
            throw .foreignCursor
        }
        return position
    }

    static let laneStatement = Statement(
        "lane_listing_lane",
        ["organization", "user"],
        "SELECT \(LaneRows.list) FROM lanes x WHERE x.organization_id = :organization AND x.user_id = :user"
    )

    static let pageStatement = Statement(
        "lane_listing",
        ["organization", "user", "after", "limit"],
        """
        SELECT m.id, m.device_id, m.sequence_number, m.position, m.status, m.operation, m.attempt_count,
            m.next_retry_at, m.created_at, m.accepted_at, \(Dependencies.open) AS depends_on, \(EntityName.list),
            m.error_code, m.error_status, m.changed_at, m.has_more
        FROM (
            SELECT p.*, row_number() OVER w AS place, sum(p.ids) OVER w AS ids_to,
                row_number() OVER w < count(*) OVER () AS has_more
            FROM (
                SELECT x.*, cardinality(x.depends_on) AS ids
                FROM mutations x
                WHERE x.organization_id = :organization AND x.user_id = :user AND x.synced_at IS NULL
                    AND x.position > :after
                ORDER BY x.position
                LIMIT :limit
            ) p
            WINDOW w AS (ORDER BY p.position)
        ) m
        WHERE m.place = 1 OR m.ids_to <= \(Self.blockers)
        ORDER BY m.position
        """
    )

    static let statements = [laneStatement, pageStatement]
}

extension LaneListing.Mutation {
    fileprivate init(_ row: inout RowReader) throws {
        let id = try row.uuid("id")
        let device = try row.uuid("device_id")
        let number = try row.int64("sequence_number")
        let position = try row.int64("position")
        let status: MutationStatus = try row.choice("status")
        let operation: SyncModel.Operation = try row.choice("operation")
        let attempts = try row.int16("attempt_count")
        let next = try row.optionalMoment("next_retry_at")
        let created = try row.moment("created_at")
        let accepted = try row.moment("accepted_at")
        let dependsOn = try row.uuids("depends_on")
        let entity = try row.entity()
        self.init(
            base: Backlog.Mutation(
                id: id,
                deviceID: device,
                sequenceNumber: number,
                position: position,
                status: status,
                operation: operation,
                entityType: entity.type,
                attemptCount: attempts,
                nextRetryAt: next,
                createdAt: created,
                acceptedAt: accepted,
                dependsOn: dependsOn
            ),
            entity: entity,
            errorCode: try row.optionalString("error_code"),
            responseStatus: try row.optionalInt16("error_status"),
            changedAt: try row.moment("changed_at"),
            hasMore: try row.bool("has_more")
        )
    }
}
