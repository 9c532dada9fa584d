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

    /// The first parameters: the place behind which a page begins.
    private static let place = ["after", "after_organization", "after_user", "after_id"]

    private static func newest(_ table: String) -> String {
        "\(table).stuck_at DESC, \(table).organization_id DESC, \(table).user_id DESC, \(table).id DESC"
    }

    private static let behindPlace = """
        (x.stuck_at, x.organization_id, x.user_id, x.id) < (:after, :after_organization, :after_user, :after_id)
        """
    private static let behind = "\(behindPlace) AND \(StuckRows.areInTime("x"))"

    /// Within an organization: an index that begins with it is in this order.
    private static func newestOfOne(_ table: String) -> String {
        "\(table).stuck_at DESC, \(table).user_id DESC, \(table).id DESC"
    }

    private static func behindOfOne(_ table: String) -> String {
        "(\(table).stuck_at, \(table).user_id, \(table).id) < (:after, :after_user, :after_id)"
            + " AND :after_organization::uuid IS NOT NULL"
    }

    private static func edge(
        _ name: String,
        _ parameters: [String],
        _ rows: String,
        _ order: String,
        with groups: String = "",
        variant: Statement? = nil
    ) -> Statement {
        Statement(
            name,
            place + parameters + ["scan"],
            """
            \(groups) SELECT x.stuck_at, x.organization_id, x.user_id, x.id
            FROM mutations x
            WHERE \(rows)
            ORDER BY \(order)
            OFFSET :scan - 1 LIMIT 1
            """,
            variant: variant?.sql
        )
    }

    private static func page(
        _ name: String,
        _ parameters: [String],
        _ rows: String,
        _ order: (String) -> String
    ) -> Statement {
        Statement(
            name,
            place + parameters + ["scan"] + StuckRows.filter + ["limit"],
            """
            SELECT \(StuckMutation.list)
            FROM (
                SELECT * FROM mutations x
                WHERE \(rows)
                ORDER BY \(order("x"))
                LIMIT :scan
            ) m
            WHERE m.status IN (\(MutationStatus.stuckList)) AND \(StuckRows.match("m"))
            ORDER BY \(order("m"))
            LIMIT :limit
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
    private static func groupedPage(
        _ name: String,
        _ parameters: [String],
        _ groups: String,
        _ each: (String) -> String,
        _ rows: String,
        _ order: (String) -> String,
        variant: Statement? = nil
    ) -> Statement {
        let key = "x.stuck_at, x.organization_id, x.user_id, x.id"
        func next(ofGroup group: String, limit: String) -> String {
            """
            SELECT \(key)
                            FROM mutations x
                            WHERE \(each(group)) AND \(StuckRows.isOf(group))
                                AND x.status IN (\(MutationStatus.stuckList))
                            ORDER BY \(newestOfOne("x"))
                            LIMIT \(limit)
            """
        }
        return Statement(
            name,
            place + parameters + ["scan"] + StuckRows.filter + ["limit"],
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
                        WHERE \(StuckRows.match("g")) AND \(StuckRows.hasAllGroups)
                        ORDER BY \(order("x"))
                        LIMIT :limit
                    ) f
                    CROSS JOIN LATERAL (
                        \(next(ofGroup: "f", limit: ":limit"))
                    ) r
                    UNION ALL
                    SELECT m.stuck_at, m.organization_id, m.user_id, m.id
                    FROM (
                        SELECT \(key), x.status, x.entity_type, x.error_code, x.error_status
                        FROM mutations x
                        WHERE \(rows) AND \(StuckRows.lacksGroups)
                        ORDER BY \(order("x"))
                        LIMIT :scan
                    ) m
                    WHERE m.status IN (\(MutationStatus.stuckList)) AND \(StuckRows.match("m"))
                ) x
                ORDER BY \(order("x"))
                LIMIT :limit
            ) p
            CROSS JOIN LATERAL (
                SELECT * FROM mutations x
                WHERE x.organization_id = p.organization_id AND x.user_id = p.user_id AND x.id = p.id
                OFFSET 0
            ) m
            ORDER BY \(order("p"))
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
    private static let groupsOfOrganization = StuckRows.withGroups(of: ":organization")

    private static let ofOrganization =
        "x.organization_id = :organization AND \(behindOfOne("x")) AND \(StuckRows.areInTime("x"))"
    private static let ofGroup =
        "x.organization_id = :organization AND x.entity_type = :group_type AND x.error_code = :group_code "
        + "AND x.error_status = :group_status AND \(behindOfOne("x")) AND \(StuckRows.are("x"))"

    private static let group = ["organization", "group_type", "group_code", "group_status"]

    static let edgeOfAll = edge("stuck_edge_of_all", [], behind, newest("x"))
    static let pageOfAll = page("stuck_page_of_all", [], behind, newest)
    static let edgeOfOrganization = edge(
        "stuck_edge_of_organization",
        ["organization"],
        ofOrganization,
        newestOfOne("x")
    )
    static let pageOfOrganization = page("stuck_page_of_organization", ["organization"], ofOrganization, newestOfOne)
    static let edgeOfGroup = edge("stuck_edge_of_group", group, ofGroup, newestOfOne("x"))
    static let pageOfGroup = page("stuck_page_of_group", group, ofGroup, newestOfOne)

    static let edgeOfSomeGroups = edge(
        "stuck_edge_of_some_groups",
        ["organization"],
        "\(ofOrganization) AND \(StuckRows.lacksGroups)",
        newestOfOne("x"),
        with: groupsOfOrganization
    )
    static let pageOfSomeGroups = groupedPage(
        "stuck_page_of_some_groups",
        ["organization"],
        groupsOfOrganization,
        { _ in "x.organization_id = :organization AND \(behindOfOne("x"))" },
        ofOrganization,
        newestOfOne
    )
    static let edgeOfSomeGroupsOfAll = edge(
        "stuck_edge_of_some_groups_of_all",
        [],
        "\(behind) AND \(StuckRows.lacksGroups)",
        newest("x"),
        with: allGroups,
        variant: edgeOfAll
    )
    static let pageOfSomeGroupsOfAll = groupedPage(
        "stuck_page_of_some_groups_of_all",
        [],
        allGroups,
        { group in
            """
            x.organization_id = \(group).organization_id
                            AND \(behindPlace)
            """
        },
        behind,
        newest,
        variant: pageOfAll
    )

    static let pageOfUser = Statement(
        "stuck_page_of_user",
        place + ["organization", "user", "scan"] + StuckRows.filter + ["limit"],
        """
        SELECT \(StuckMutation.list)
        FROM (
            SELECT * FROM mutations y
            WHERE y.organization_id = :organization AND y.user_id = :user AND y.synced_at IS NULL
            ORDER BY y.position
            LIMIT :scan
        ) m
        WHERE m.status IN (\(MutationStatus.stuckList)) AND \(StuckRows.are("m")) AND \(behindOfOne("m"))
            AND \(StuckRows.match("m"))
        ORDER BY \(newestOfOne("m"))
        LIMIT :limit
        """
    )

    static let statements = [
        edgeOfAll, pageOfAll, edgeOfOrganization, pageOfOrganization, edgeOfGroup, pageOfGroup, edgeOfSomeGroups,
        pageOfSomeGroups, edgeOfSomeGroupsOfAll, pageOfSomeGroupsOfAll, pageOfUser,
    ]
}
