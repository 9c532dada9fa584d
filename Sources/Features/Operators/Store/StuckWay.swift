import Foundation
import Postgres
import SyncModel
import SyncStore

/// The index by which the stuck mutations are searched, each newest first.
///
/// Each variant is a separate statement, so that each plan uses its index for any values.
enum StuckWay {
    case everywhere
    case someGroupsOfAll
    case organization(UUID)
    case someGroups(UUID)
    case group(UUID, StuckGroup.Key)
    case user(LaneKey)

    init(_ filter: StuckFilter, _ organization: UUID?) {
        guard let organization else {
            self = filter.isOfSomeGroups ? .someGroupsOfAll : .everywhere
            return
        }
        if let user = filter.user {
            self = .user(LaneKey(organization: organization, user: user))
        } else if let key = filter.group {
            self = .group(organization, key)
        } else {
            self = filter.isOfSomeGroups ? .someGroups(organization) : .organization(organization)
        }
    }

    /// Returns the queries for the page, with one mutation more than it holds, and for the last mutation read, if there
    /// may be more.
    ///
    /// A user's lane is read completely, up to the allowed number, so nothing follows it. The same applies to some
    /// groups, unless there are too many.
    func queries(_ filter: StuckFilter, _ start: StuckPlace, limit: Int) -> (page: Query, edge: Query?) {
        var parameters = Parameters(start.at, start.organization, start.user, start.id)
        let statements: (page: Statement, edge: Statement?)
        var scan = StuckList.scan
        switch self {
        case .everywhere: statements = (Self.pageOfAll, Self.edgeOfAll)
        case .someGroupsOfAll: statements = (Self.pageOfSomeGroupsOfAll, Self.edgeOfSomeGroupsOfAll)
        case .organization(let id):
            parameters.add(id)
            statements = (Self.pageOfOrganization, Self.edgeOfOrganization)
        case .someGroups(let id):
            parameters.add(id)
            statements = (Self.pageOfSomeGroups, Self.edgeOfSomeGroups)
        case .group(let id, let key):
            parameters.add(id)
            parameters.add(key.entityType)
            parameters.add(key.errorCode)
            parameters.add(key.responseStatus)
            statements = (Self.pageOfGroup, Self.edgeOfGroup)
        case .user(let lane):
            parameters.add(lane.organization)
            parameters.add(lane.user)
            statements = (Self.pageOfUser, nil)
            scan = StuckList.laneScan
        }
        parameters.add(scan)
        var page = parameters
        page.add(groupsOf: filter)
        page.add(Int64(limit + 1))
        return (Query(statements.page, page), statements.edge.map { Query($0, parameters) })
    }

    // MARK: - Statements

    private static let newest = "x.stuck_at DESC, x.organization_id DESC, x.user_id DESC, x.id DESC"
    private static let behind =
        "(x.stuck_at, x.organization_id, x.user_id, x.id) < ($1, $2, $3, $4) AND \(StuckRows.areInTime("x"))"
    /// Within an organization: an index that begins with it is in this order.
    private static let newestOfOne = "x.stuck_at DESC, x.user_id DESC, x.id DESC"
    private static let behindOfOne = "(x.stuck_at, x.user_id, x.id) < ($1, $3, $4) AND $2::uuid IS NOT NULL"

    private static func edge(
        _ name: String,
        _ rows: String,
        _ order: String,
        scan: Int,
        with groups: String = "",
        variant: Statement? = nil
    ) -> Statement {
        Statement(
            name,
            """
            \(groups) SELECT x.stuck_at, x.organization_id, x.user_id, x.id
            FROM mutations x
            WHERE \(rows)
            ORDER BY \(order)
            OFFSET $\(scan) - 1 LIMIT 1
            """,
            variant: variant?.sql
        )
    }

    private static func page(_ name: String, _ rows: String, _ order: String, scan: Int) -> Statement {
        Statement(
            name,
            """
            SELECT \(StuckMutation.list)
            FROM (
                SELECT * FROM mutations x
                WHERE \(rows)
                ORDER BY \(order)
                LIMIT $\(scan)
            ) m
            WHERE m.status IN (\(MutationStatus.stuckList)) AND \(StuckRows.match("m", from: scan + 1))
            ORDER BY \(order.replacing("x.", with: "m."))
            LIMIT $\(scan + 5)
            """
        )
    }

    /// The next of the groups that are meant: among those whose first is next, for a page has no more groups than rows.
    /// Where there are too many groups, the next of all in time. Only those of the page are read whole.
    ///
    /// - Parameters:
    ///   - groups: the groups `g`.
    ///   - each: whether a row `x` is behind the place, in the organization of a group that is called so.
    ///   - rows: whether a row `x` is behind the place.
    private static func pageOfSomeGroups(
        _ name: String,
        _ groups: String,
        _ each: (String) -> String,
        _ rows: String,
        _ order: String,
        scan: Int,
        variant: Statement? = nil
    ) -> Statement {
        let place = "x.stuck_at, x.organization_id, x.user_id, x.id"
        func next(ofGroup group: String, limit: String) -> String {
            """
            SELECT \(place)
                            FROM mutations x
                            WHERE \(each(group)) AND \(StuckRows.isOf(group))
                                AND x.status IN (\(MutationStatus.stuckList))
                            ORDER BY \(newestOfOne)
                            LIMIT \(limit)
            """
        }
        return Statement(
            name,
            """
            \(groups)
            SELECT \(StuckMutation.list)
            FROM (
                SELECT * FROM (
                    SELECT r.*
                    FROM (
                        SELECT g.*
                        FROM g CROSS JOIN LATERAL (
                            \(next(ofGroup: "g", limit: "1"))
                        ) x
                        WHERE \(StuckRows.match("g", from: scan + 1)) AND \(StuckRows.hasAllGroups)
                        ORDER BY \(order)
                        LIMIT $\(scan + 5)
                    ) f
                    CROSS JOIN LATERAL (
                        \(next(ofGroup: "f", limit: "$\(scan + 5)"))
                    ) r
                    UNION ALL
                    SELECT m.stuck_at, m.organization_id, m.user_id, m.id
                    FROM (
                        SELECT \(place), x.status, x.entity_type, x.error_code, x.error_status
                        FROM mutations x
                        WHERE \(rows) AND \(StuckRows.lacksGroups)
                        ORDER BY \(order)
                        LIMIT $\(scan)
                    ) m
                    WHERE m.status IN (\(MutationStatus.stuckList)) AND \(StuckRows.match("m", from: scan + 1))
                ) x
                ORDER BY \(order)
                LIMIT $\(scan + 5)
            ) p
            CROSS JOIN LATERAL (
                SELECT * FROM mutations x
                WHERE x.organization_id = p.organization_id AND x.user_id = p.user_id AND x.id = p.id
                OFFSET 0
            ) m
            ORDER BY \(order.replacing("x.", with: "p."))
            """,
            variant: variant?.sql
        )
    }

    /// The groups of all organizations. A cluster walks through no organizations: there, all in time are looked through.
    private static let allGroups = """
        WITH RECURSIVE g AS MATERIALIZED (
            SELECT o.id AS organization_id, t.*
            FROM organizations o
            CROSS JOIN LATERAL (
                WITH RECURSIVE \(StuckRows.groups(of: "o.id"))
                SELECT * FROM w LIMIT \(StuckRows.walk)
            ) t
            LIMIT \(StuckRows.walk)
        )
        """
    private static let groupsOfOrganization = StuckRows.withGroups(of: "$5")

    private static let ofOrganization =
        "x.organization_id = $5 AND \(behindOfOne) AND \(StuckRows.areInTime("x"))"
    private static let ofGroup =
        "x.organization_id = $5 AND x.entity_type = $6 AND x.error_code = $7 AND x.error_status = $8 AND "
        + "\(behindOfOne) AND \(StuckRows.are("x"))"

    static let edgeOfAll = edge("stuck_edge_of_all", behind, newest, scan: 5)
    static let pageOfAll = page("stuck_page_of_all", behind, newest, scan: 5)
    static let edgeOfOrganization = edge("stuck_edge_of_organization", ofOrganization, newestOfOne, scan: 6)
    static let pageOfOrganization = page("stuck_page_of_organization", ofOrganization, newestOfOne, scan: 6)
    static let edgeOfGroup = edge("stuck_edge_of_group", ofGroup, newestOfOne, scan: 9)
    static let pageOfGroup = page("stuck_page_of_group", ofGroup, newestOfOne, scan: 9)

    static let edgeOfSomeGroups = edge(
        "stuck_edge_of_some_groups",
        "\(ofOrganization) AND \(StuckRows.lacksGroups)",
        newestOfOne,
        scan: 6,
        with: groupsOfOrganization
    )
    static let pageOfSomeGroups = pageOfSomeGroups(
        "stuck_page_of_some_groups",
        groupsOfOrganization,
        { _ in "x.organization_id = $5 AND \(behindOfOne)" },
        ofOrganization,
        newestOfOne,
        scan: 6
    )
    static let edgeOfSomeGroupsOfAll = edge(
        "stuck_edge_of_some_groups_of_all",
        "\(behind) AND \(StuckRows.lacksGroups)",
        newest,
        scan: 5,
        with: allGroups,
        variant: edgeOfAll
    )
    static let pageOfSomeGroupsOfAll = pageOfSomeGroups(
        "stuck_page_of_some_groups_of_all",
        allGroups,
        { group in
            """
            x.organization_id = \(group).organization_id
                            AND (x.stuck_at, x.organization_id, x.user_id, x.id) < ($1, $2, $3, $4)
            """
        },
        behind,
        newest,
        scan: 5,
        variant: pageOfAll
    )

    static let pageOfUser = Statement(
        "stuck_page_of_user",
        """
        SELECT \(StuckMutation.list)
        FROM (
            SELECT * FROM mutations y
            WHERE y.organization_id = $5 AND y.user_id = $6 AND y.synced_at IS NULL
            ORDER BY y.position
            LIMIT $7
        ) m
        WHERE m.status IN (\(MutationStatus.stuckList)) AND \(StuckRows.are("m")) AND \(behindOfOne.replacing("x.", with: "m."))
            AND \(StuckRows.match("m", from: 8))
        ORDER BY \(newestOfOne.replacing("x.", with: "m."))
        LIMIT $12
        """
    )

    static let statements = [
        edgeOfAll, pageOfAll, edgeOfOrganization, pageOfOrganization, edgeOfGroup, pageOfGroup, edgeOfSomeGroups,
        pageOfSomeGroups, edgeOfSomeGroupsOfAll, pageOfSomeGroupsOfAll, pageOfUser,
    ]
}
