package import Foundation
package import Postgres
package import SyncModel
import SyncStore

/// The mutations that an operation is about, in the order in which they got stuck.
///
/// Every search reads a bounded number of them by an index, and continues after the last one. Mutations that get stuck
/// later than `until` are excluded. Those of a user are found among the lane's open mutations, as settling finds them.
package enum OperationCandidates {
    /// Mutations that one look reads.
    static let scan: Int64 = 5_000

    /// A place among the stuck mutations of an organization.
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

    /// A search: the matching mutations, then the last one that was read if there may be more.
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
        let way = OperationWay(filter, ids)
        way.add(filter, ids, to: &parameters)
        var edge: Query?
        if let statement = way.edge {
            parameters.add(scan)
            edge = Query(statement, parameters)
        }
        parameters.add(groupsOf: filter)
        if way == .ids { parameters.add(filter.user) }
        parameters.add(Int64(limit))
        return [Query(way.page, parameters), edge ?? Query(noEdge)]
    }

    /// How many there are, and of how many users: up to ``BoundedCount/limit``, and whether there are more.
    package static func count(
        _ filter: StuckFilter,
        ids: [UUID]?,
        organization: UUID,
        until: Timestamp
    ) -> Query {
        var parameters = Parameters(of: organization, until)
        let way = OperationWay(filter, ids)
        way.add(filter, ids, to: &parameters)
        parameters.add(groupsOf: filter)
        if way == .ids { parameters.add(filter.user) }
        return Query(way.count, parameters)
    }

    // MARK: - Statements

    /// The first parameters of a look.
    private static let place = ["organization", "after", "after_user", "after_id", "until"]

    private static func behind(_ table: String) -> String {
        "(\(table).stuck_at, \(table).user_id, \(table).id) > (:after, :after_user, :after_id)"
            + " AND \(table).stuck_at <= :until"
    }

    private static let oldest = "x.stuck_at, x.user_id, x.id"
    private static let ofOrganization =
        "x.organization_id = :organization AND \(behind("x")) AND \(StuckRows.areInTime("x"))"
    private static let ofGroup =
        "x.organization_id = :organization AND \(behind("x")) AND \(isOfGroup) AND \(StuckRows.are("x"))"
    private static let columns = "x.stuck_at, x.user_id, x.id, x.status, x.entity_type, x.error_code, x.error_status"
    private static let group = ["group_type", "group_code", "group_status"]
    private static let isOfGroup =
        "x.entity_type = :group_type AND x.error_code = :group_code AND x.error_status = :group_status"

    /// Whether a row `m` is meant.
    private static let match = "m.status IN (\(MutationStatus.stuckList)) AND \(StuckRows.match("m"))"

    /// The rows `m` of some ids, each by the index that has it: in an order that it alone has, for a planner that knows
    /// nothing of the table takes any of an organization's for as good.
    private static let byID = """
        (SELECT DISTINCT i.id FROM unnest(:ids::uuid[]) AS i (id)) k
            CROSS JOIN LATERAL (
                SELECT \(columns)
                FROM mutations x
                WHERE x.organization_id = :organization AND x.id BETWEEN k.id AND k.id AND \(StuckRows.are("x"))
                ORDER BY x.id
                OFFSET 0
            ) m
        """

    /// The open mutations `m` of a user that are stuck according to ``StuckRows/are(_:)``.
    private static let byUser = """
        (
                SELECT \(columns), x.error, x.synced_at
                FROM mutations x
                WHERE x.organization_id = :organization AND x.user_id = :user AND x.synced_at IS NULL
                ORDER BY x.position
                OFFSET 0
            ) m
        """

    private static func page(
        _ name: String,
        _ parameters: [String],
        from rows: String,
        where conditions: String
    ) -> Statement {
        Statement(
            name,
            place + parameters + ["limit"],
            """
            SELECT m.stuck_at, m.user_id, m.id
            FROM \(rows)
            WHERE \(conditions)
            ORDER BY m.stuck_at, m.user_id, m.id
            LIMIT :limit
            """
        )
    }

    private static func inTime(_ rows: String) -> String {
        """
        (
                SELECT \(columns)
                FROM mutations x
                WHERE \(rows)
                ORDER BY \(oldest)
                LIMIT :scan
            ) m
        """
    }

    private static func edge(
        _ name: String,
        _ parameters: [String],
        _ rows: String,
        with groups: String = ""
    ) -> Statement {
        Statement(
            name,
            place + parameters + ["scan"],
            """
            \(groups) SELECT x.stuck_at, x.user_id, x.id
            FROM mutations x
            WHERE \(rows)
            ORDER BY \(oldest)
            OFFSET :scan - 1 LIMIT 1
            """
        )
    }

    /// Counts the rows of a query, which ends at one more than is counted.
    private static func count(
        _ name: String,
        _ parameters: [String],
        _ rows: String,
        with groups: String = "",
        isCut: String = "false"
    ) -> Statement {
        Statement(
            name,
            ["organization", "until"] + parameters,
            """
            \(groups) SELECT least(count(*), \(BoundedCount.limit)) AS count, count(DISTINCT c.user_id) AS users,
                count(*) > \(BoundedCount.limit) OR \(isCut) AS is_cut
            FROM (
                \(rows)
                LIMIT \(BoundedCount.limit + 1)
            ) c
            """
        )
    }

    private static let narrowedByUser = "(:user::uuid IS NULL OR m.user_id = :user)"

    static let pageOfOrganization = page(
        "operation_page",
        ["scan"] + StuckRows.filter,
        from: inTime(ofOrganization),
        where: match
    )
    static let edgeOfOrganization = edge("operation_edge", [], ofOrganization)
    static let pageOfGroup = page(
        "operation_page_of_group",
        group + ["scan"] + StuckRows.filter,
        from: inTime(ofGroup),
        where: match
    )
    static let edgeOfGroup = edge("operation_edge_of_group", group, ofGroup)
    static let pageOfIDs = page(
        "operation_page_of_ids",
        ["ids"] + StuckRows.filter + ["user"],
        from: byID,
        where: "\(behind("m")) AND \(match) AND \(narrowedByUser)"
    )
    static let pageOfUser = page(
        "operation_page_of_user",
        ["user"] + StuckRows.filter,
        from: byUser,
        where: "\(StuckRows.are("m")) AND \(behind("m")) AND \(match)"
    )

    private static func next(ofGroup group: String, limit: String) -> String {
        """
        SELECT x.stuck_at, x.user_id, x.id
                    FROM mutations x
                    WHERE x.organization_id = :organization AND \(StuckRows.isOf(group)) AND \(behind("x"))
                        AND x.status IN (\(MutationStatus.stuckList))
                    ORDER BY \(oldest)
                    LIMIT \(limit)
        """
    }

    /// The next of the groups that are meant: among those whose first is next, for a page has no more groups than rows.
    /// Where there are too many groups, the next of all in time.
    static let pageOfSomeGroups = Statement(
        "operation_page_of_some_groups",
        place + ["scan"] + StuckRows.filter + ["limit"],
        """
        \(StuckRows.withGroups(of: ":organization"))
        SELECT p.stuck_at, p.user_id, p.id
        FROM (
            SELECT r.*
            FROM (
                SELECT g.entity_type, g.error_code, g.error_status
                FROM g CROSS JOIN LATERAL (
                    \(next(ofGroup: "g", limit: "1"))
                ) x
                WHERE \(StuckRows.match("g")) AND \(StuckRows.hasAllGroups)
                ORDER BY \(oldest)
                LIMIT :limit
            ) f
            CROSS JOIN LATERAL (
                \(next(ofGroup: "f", limit: ":limit"))
            ) r
            UNION ALL
            SELECT m.stuck_at, m.user_id, m.id
            FROM \(inTime("\(ofOrganization) AND \(StuckRows.lacksGroups)"))
            WHERE \(match)
        ) p
        ORDER BY p.stuck_at, p.user_id, p.id
        LIMIT :limit
        """
    )
    static let edgeOfSomeGroups = edge(
        "operation_edge_of_some_groups",
        [],
        "\(ofOrganization) AND \(StuckRows.lacksGroups)",
        with: StuckRows.withGroups(of: ":organization")
    )
    /// Where nothing is left behind a page.
    static let noEdge = Statement(
        "operation_no_edge",
        "SELECT NULL::timestamptz AS stuck_at, NULL::uuid AS user_id, NULL::uuid AS id WHERE false"
    )

    static let countOfOrganization = count(
        "operation_count",
        StuckRows.filter,
        """
        SELECT x.user_id FROM mutations x
            WHERE x.organization_id = :organization AND x.stuck_at <= :until AND \(StuckRows.areInTime("x"))
                AND \(StuckRows.match("x"))
            ORDER BY \(oldest)
        """
    )
    static let countOfGroup = count(
        "operation_count_of_group",
        group + StuckRows.filter,
        """
        SELECT x.user_id FROM mutations x
            WHERE x.organization_id = :organization AND x.stuck_at <= :until AND \(isOfGroup) AND \(StuckRows.are("x"))
                AND \(StuckRows.match("x"))
            ORDER BY \(oldest)
        """
    )
    static let countOfSomeGroups = count(
        "operation_count_of_some_groups",
        StuckRows.filter,
        """
        SELECT r.user_id FROM g CROSS JOIN LATERAL (
                SELECT x.user_id FROM mutations x
                WHERE x.organization_id = :organization AND \(StuckRows.isOf("g")) AND x.stuck_at <= :until
                ORDER BY \(oldest)
                LIMIT \(BoundedCount.limit + 1)
            ) r
            WHERE \(StuckRows.match("g"))
        """,
        with: StuckRows.withGroups(of: ":organization"),
        isCut: StuckRows.lacksGroups
    )
    static let countOfIDs = count(
        "operation_count_of_ids",
        ["ids"] + StuckRows.filter + ["user"],
        """
        SELECT m.user_id FROM \(byID)
            WHERE m.stuck_at <= :until AND \(match) AND \(narrowedByUser)
        """
    )
    static let countOfUser = count(
        "operation_count_of_user",
        ["user"] + StuckRows.filter,
        """
        SELECT m.user_id FROM \(byUser)
            WHERE \(StuckRows.are("m")) AND m.stuck_at <= :until AND \(match)
        """
    )

    static let statements = [
        pageOfOrganization, edgeOfOrganization, pageOfGroup, edgeOfGroup, pageOfSomeGroups, edgeOfSomeGroups, pageOfIDs,
        pageOfUser, noEdge, countOfOrganization, countOfGroup, countOfSomeGroups, countOfIDs, countOfUser,
    ]
}

/// The index by which an operation's mutations are searched.
///
/// Each has a separate statement, so that each plan uses its index for any values.
private enum OperationWay {
    case ids, user, group, someGroups, organization

    init(_ filter: StuckFilter, _ ids: [UUID]?) {
        if ids != nil {
            self = .ids
        } else if filter.user != nil {
            self = .user
        } else if filter.group != nil {
            self = .group
        } else {
            self = filter.isOfSomeGroups ? .someGroups : .organization
        }
    }

    var page: Statement {
        switch self {
        case .ids: OperationCandidates.pageOfIDs
        case .user: OperationCandidates.pageOfUser
        case .group: OperationCandidates.pageOfGroup
        case .someGroups: OperationCandidates.pageOfSomeGroups
        case .organization: OperationCandidates.pageOfOrganization
        }
    }

    /// Nil if a page that is not full is the last one.
    var edge: Statement? {
        switch self {
        case .ids, .user: nil
        case .group: OperationCandidates.edgeOfGroup
        case .someGroups: OperationCandidates.edgeOfSomeGroups
        case .organization: OperationCandidates.edgeOfOrganization
        }
    }

    var count: Statement {
        switch self {
        case .ids: OperationCandidates.countOfIDs
        case .user: OperationCandidates.countOfUser
        case .group: OperationCandidates.countOfGroup
        case .someGroups: OperationCandidates.countOfSomeGroups
        case .organization: OperationCandidates.countOfOrganization
        }
    }

    /// The parameters that the index is asked for.
    func add(_ filter: StuckFilter, _ ids: [UUID]?, to parameters: inout Parameters) {
        switch self {
        case .ids: parameters.add(ids ?? [])
        case .user: parameters.add(filter.user)
        case .group:
            guard let key = filter.group else { return }
            parameters.add(key.entityType)
            parameters.add(key.errorCode)
            parameters.add(key.responseStatus)
        case .someGroups, .organization: break
        }
    }
}
