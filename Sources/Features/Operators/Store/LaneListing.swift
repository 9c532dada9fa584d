package import FoundationEssentials
import JSONText
import Postgres
package import SyncModel
import SyncStore

/// Lists a user's open mutations in the order of the lane, a page at a time, together with the lane.
package struct LaneListing: Sendable {
    /// An open mutation, without content of its user.
    package struct Mutation: Sendable {
        package let base: Backlog.Mutation
        package let entity: EntityName
        package let errorCode: String?
        package let responseStatus: Int16?
        /// The time at which the mutation got its present status.
        package let changedAt: Timestamp
        /// Whether more mutations follow the page.
        let hasMore: Bool
    }

    package struct Page: Sendable {
        /// Nil for a user without a lane.
        package let lane: LaneState?
        package let mutations: [Mutation]
        package let next: String?
    }

    /// The maximum number of dependencies that a page lists, over all of its mutations.
    ///
    /// If the first mutation alone exceeds the maximum, the page has only this mutation.
    private static let blockers = 1_048_576 / WorkBounds.listedID

    let pool: Pool
    let failure: StoreFailure

    /// - Parameters:
    ///   - limit: 1 to 1,000.
    ///   - cursor: `next` of the previous page.
    package func page(of lane: LaneKey, limit: Int, cursor: String?) async throws(Problem) -> Page {
        let start = try Self.position(cursor)
        do {
            let results = try await pool.readByIndex([
                Self.laneStatement(organization: lane.organization, user: lane.user),
                Self.pageStatement(
                    organization: lane.organization,
                    user: lane.user,
                    after: start,
                    limit: limit + 1
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
        let id: UUID = try row.read("id")
        let device: UUID = try row.read("device_id")
        let number: Int64 = try row.read("sequence_number")
        let position: Int64 = try row.read("position")
        let status: MutationStatus = try row.choice("status")
        let operation: SyncModel.Operation = try row.choice("operation")
        let attempts: Int16 = try row.read("attempt_count")
        let next: Timestamp? = try row.read("next_retry_at")
        let created: Timestamp = try row.read("created_at")
        let accepted: Timestamp = try row.read("accepted_at")
        let dependsOn: [UUID] = try row.read("depends_on")
        let entity = try row.entity()
        var base = Backlog.Mutation(
            id: id,
            deviceID: device,
            sequenceNumber: number,
            position: position,
            status: status,
            operation: operation,
            entityType: entity.type,
            acceptedAt: accepted
        )
        (base.createdAt, base.attemptCount, base.nextRetryAt, base.dependsOn) = (created, attempts, next, dependsOn)
        self.base = base
        self.entity = entity
        errorCode = try row.read("error_code")
        responseStatus = try row.read("error_status")
        changedAt = try row.read("changed_at")
        hasMore = try row.read("has_more")
    }
}

// MARK: - StoppedLanes

/// Lists the lanes in which nothing runs, over all organizations or in one.
///
/// Halted lanes are ordered by organization and user. Waiting lanes are ordered by the time at which they continue.
package struct StoppedLanes: Sendable {
    /// The reason why nothing runs.
    package enum State: String, Sendable, CaseIterable {
        /// Nothing runs until a person settles a mutation.
        case halted
        /// Nothing runs until a certain time: the time of the next attempt, or the end of a pause of the organization's
        /// upstream.
        case waiting
    }

    package struct Lane: Sendable {
        package let key: LaneKey
        package let haltedBy: UUID?
        /// The time from which a gateway can claim the lane; nil if there is nothing to run.
        package let readyAt: Timestamp?
        /// The number of mutations that run once the lane continues.
        package let queuedCount: Int32
        /// The time at which the first of these mutations was accepted.
        package let queuedSince: Timestamp?
    }

    package struct Page: Sendable {
        package let lanes: [Lane]
        package let next: String?
    }

    let pool: Pool
    let now: TimeSource
    let failure: StoreFailure

    /// - Parameters:
    ///   - organization: restricts the list to this organization; nil lists all organizations.
    ///   - limit: 1 to 1,000.
    ///   - cursor: `next` of the previous page.
    /// - Throws: `invalid_request` for a cursor that is invalid or was made with another filter.
    package func page(
        _ state: State,
        organization: UUID?,
        limit: Int,
        cursor: String?
    ) async throws(Problem) -> Page {
        let start = try StoppedLaneCursor(cursor, state, organization, now: now())
        let parameters = Parameters(start.place.organization, start.place.user, start.place.at, limit + 1)
        let query = Query(Self.statement(state, isOfOne: organization != nil), parameters)
        do {
            let rows = try await pool.readByIndex(query)
            let found = try rows.read(Lane.init)
            let page = Array(found.prefix(limit))
            return Page(lanes: page, next: found.count > limit ? page.last.map(start.next) : nil)
        } catch {
            throw failure.problem(error, doing: "list lanes")
        }
    }

    // MARK: - Statements

    /// Reads the lanes after a position. The position is the organization, the user and, for waiting lanes, the time.
    private static func statement(_ name: String, _ rows: String, by order: String) -> Statement {
        Statement(
            name,
            ["organization", "user", "at", "limit"],
            """
            SELECT l.organization_id, l.user_id, l.halted_by, l.ready_at, l.queued_count, l.queued_since
            FROM lanes l
            WHERE \(rows)
            ORDER BY \(order)
            LIMIT :limit
            """
        )
    }

    static let halted = statement(
        "lanes_halted",
        "l.organization_id = :organization AND l.halted_by IS NOT NULL AND l.user_id > :user"
            + " AND :at::timestamptz IS NOT NULL",
        by: "l.user_id"
    )
    static let haltedOfAll = statement(
        "lanes_halted_of_all",
        "l.halted_by IS NOT NULL AND (l.organization_id, l.user_id) > (:organization, :user)"
            + " AND :at::timestamptz IS NOT NULL",
        by: "l.organization_id, l.user_id"
    )
    static let waiting = statement(
        "lanes_waiting",
        """
        l.organization_id = :organization AND l.lease_owner IS NULL AND l.ready_at >= :at AND (l.ready_at, l.user_id) > (:at, :user)
        """,
        by: "l.ready_at, l.user_id"
    )
    static let waitingOfAll = statement(
        "lanes_waiting_of_all",
        """
        l.lease_owner IS NULL AND l.ready_at >= :at AND (l.ready_at, l.organization_id, l.user_id) > (:at, :organization, :user)
        """,
        by: "l.ready_at, l.organization_id, l.user_id"
    )

    static let statements = [halted, haltedOfAll, waiting, waitingOfAll]

    private static func statement(_ state: State, isOfOne: Bool) -> Statement {
        switch (state, isOfOne) {
        case (.halted, true): halted
        case (.halted, false): haltedOfAll
        case (.waiting, true): waiting
        case (.waiting, false): waitingOfAll
        }
    }
}

extension StoppedLanes.Lane {
    fileprivate init(_ row: inout RowReader) throws {
        self.init(
            key: try row.lane(),
            haltedBy: try row.read("halted_by"),
            readyAt: try row.read("ready_at"),
            queuedCount: try row.read("queued_count"),
            queuedSince: try row.read("queued_since")
        )
    }
}
