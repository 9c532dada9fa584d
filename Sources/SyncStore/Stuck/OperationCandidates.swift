package import Foundation
package import Postgres
package import SyncModel

/// The mutations that an operation is about, in the order in which they got stuck. Every look reads a bounded number of
/// them by an index, and goes on behind the last one; what gets stuck later than `until` is not among them.
package enum OperationCandidates {
    /// Mutations that one look reads.
    static let scan: Int64 = 5_000

    /// A place among the mutations that stand still in an organization.
    package struct Place: Sendable, Hashable {
        package let at: Timestamp
        package let user: UUID
        package let id: UUID

        package init(at: Timestamp, user: UUID, id: UUID) {
            self.at = at
            self.user = user
            self.id = id
        }

        /// Reads `stuck_at`, `user_id` and `id`.
        package init(_ row: inout RowReader) throws {
            self.init(at: try row.moment("stuck_at"), user: try row.uuid("user_id"), id: try row.uuid("id"))
        }
    }

    /// A look: what matches, and then the last that was looked at where there may be more.
    package static func look(
        _ filter: StuckFilter,
        ids: [UUID]?,
        organization: UUID,
        after place: Place?,
        until: Timestamp,
        limit: Int
    ) -> [Query] {
        var parameters = Parameters(
            of: organization,
            place?.at ?? .longAgo,
            place?.user ?? UUID.least,
            place?.id ?? UUID.least,
            until
        )
        let statements: (page: Statement, edge: Statement)
        if let key = filter.group {
            parameters.add(key.entityType)
            parameters.add(key.errorCode)
            parameters.add(key.responseStatus)
            statements = (pageOfGroup, edgeOfGroup)
        } else {
            statements = (pageOfOrganization, edgeOfOrganization)
        }
        parameters.add(scan)
        var page = parameters
        page.add(groupsOf: filter)
        page.add(filter.user)
        page.add(ids ?? [])
        page.add(ids == nil)
        page.add(Int64(limit))
        return [Query(statements.page, page), Query(statements.edge, parameters)]
    }

    /// How many there are, and of how many users, among the first that are looked at.
    package static func count(
        _ filter: StuckFilter,
        ids: [UUID]?,
        organization: UUID,
        until: Timestamp
    ) -> Query {
        var parameters = Parameters(of: organization, until)
        parameters.add(BoundedCount.limit + 1)
        let statement: Statement
        if let key = filter.group {
            parameters.add(key.entityType)
            parameters.add(key.errorCode)
            parameters.add(key.responseStatus)
            statement = countOfGroup
        } else {
            statement = countOfOrganization
        }
        parameters.add(groupsOf: filter)
        parameters.add(filter.user)
        parameters.add(ids ?? [])
        parameters.add(ids == nil)
        return Query(statement, parameters)
    }

    // MARK: - Statements

    private static let behind = "(x.stuck_at, x.user_id, x.id) > ($2, $3, $4) AND x.stuck_at <= $5"
    private static let oldest = "x.stuck_at, x.user_id, x.id"
    private static let ofOrganization = "x.organization_id = $1 AND \(behind) AND \(StuckRows.areInTime("x"))"
    private static let ofGroup =
        "x.organization_id = $1 AND \(behind) AND \(isOfGroup(from: 6)) AND \(StuckRows.are("x"))"
    private static func isOfGroup(from first: Int) -> String {
        "x.entity_type = $\(first) AND x.error_code = $\(first + 1) AND x.error_status = $\(first + 2)"
    }

    /// Whether a row `m` is meant.
    private static func match(from first: Int) -> String {
        """
        m.status IN (\(MutationStatus.stuckList)) AND \(StuckRows.match("m", from: first))
            AND ($\(first + 4)::uuid IS NULL OR m.user_id = $\(first + 4))
            AND ($\(first + 6)::bool OR m.id = ANY ($\(first + 5)::uuid[]))
        """
    }

    private static func page(_ name: String, _ rows: String, scan: Int) -> Statement {
        Statement(
            name,
            """
            SELECT m.stuck_at, m.user_id, m.id
            FROM (
                SELECT x.stuck_at, x.user_id, x.id, x.status, x.entity_type, x.error_code, x.error_status
                FROM mutations x
                WHERE \(rows)
                ORDER BY \(oldest)
                LIMIT $\(scan)
            ) m
            WHERE \(match(from: scan + 1))
            ORDER BY m.stuck_at, m.user_id, m.id
            LIMIT $\(scan + 8)
            """
        )
    }

    private static func edge(_ name: String, _ rows: String, scan: Int) -> Statement {
        Statement(
            name,
            """
            SELECT x.stuck_at, x.user_id, x.id
            FROM mutations x
            WHERE \(rows)
            ORDER BY \(oldest)
            OFFSET $\(scan) - 1 LIMIT 1
            """
        )
    }

    private static func count(_ name: String, _ rows: String, match first: Int) -> Statement {
        Statement(
            name,
            """
            WITH seen AS MATERIALIZED (
                SELECT x.user_id, x.id, x.status, x.entity_type, x.error_code, x.error_status
                FROM mutations x
                WHERE x.organization_id = $1 AND x.stuck_at <= $2 AND \(rows)
                ORDER BY \(oldest)
                LIMIT $3
            )
            SELECT count(*) AS count, count(DISTINCT m.user_id) AS users, (SELECT count(*) FROM seen) = $3 AS is_cut
            FROM seen m
            WHERE \(match(from: first))
            """
        )
    }

    static let pageOfOrganization = page("operation_page", ofOrganization, scan: 6)
    static let edgeOfOrganization = edge("operation_edge", ofOrganization, scan: 6)
    static let pageOfGroup = page("operation_page_of_group", ofGroup, scan: 9)
    static let edgeOfGroup = edge("operation_edge_of_group", ofGroup, scan: 9)
    static let countOfOrganization = count("operation_count", StuckRows.areInTime("x"), match: 4)
    static let countOfGroup = count(
        "operation_count_of_group",
        "\(isOfGroup(from: 4)) AND \(StuckRows.are("x"))",
        match: 7
    )

    static let statements = [
        pageOfOrganization, edgeOfOrganization, pageOfGroup, edgeOfGroup, countOfOrganization, countOfGroup,
    ]
}
