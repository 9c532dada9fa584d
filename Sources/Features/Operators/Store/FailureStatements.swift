import Postgres
import SyncModel
import SyncStore

/// The statements of ``FailureQuery``, for each path (the index that a search uses).
///
/// An instance has the statements for pages in one of two orders, and for the edges of these pages. The edge of a page
/// is the last row that the page reads. The statements for counts are the same for both orders.
///
/// The parameters are the position, the key of the path, the number of rows to read, the filter and the limit.
struct FailureStatements: Sendable {
    typealias Path = FailureQuery.Path

    /// The statements that return whole mutations, newest first.
    static let newest = FailureStatements("stuck", newestFirst: true, FailedMutation.list)
    /// The statements that return positions, in the order in which the mutations got stuck.
    static let oldest = FailureStatements("operation", newestFirst: false, "m.stuck_at, m.user_id, m.id")

    private let pages: [Path: Statement]
    private let edges: [Path: Statement]

    func page(_ path: Path) -> Statement { pages[path] ?? Self.noEdge }

    /// Returns the statement for the last row that a page reads. If there is no such statement, a page that is not full
    /// is the last page.
    func edge(_ path: Path) -> Statement? { edges[path] }

    static func count(_ path: Path) -> Statement { counts[path] ?? noEdge }

    private init(_ name: String, newestFirst: Bool, _ columns: String) {
        let one = FailureRows(of: ":organization", newestFirst: newestFirst)
        let (organization, group) = (one.rows, one.rowsOfGroup)
        let someGroups = "\(organization) AND \(StuckRows.lacksGroups)"
        let groups = StuckRows.withGroups(of: ":organization")
        var pages: [Path: Statement] = [
            .organization: one.page("\(name)_page_of_organization", columns, organization),
            .group: one.page("\(name)_page_of_group", columns, group, key: FailureStatements.group),
            .someGroups: one.pageOfSomeGroups("\(name)_page_of_some_groups", columns, groups),
            .user: one.pageOfUser("\(name)_page_of_user", columns),
        ]
        var edges: [Path: Statement] = [
            .organization: one.edge("\(name)_edge_of_organization", organization),
            .group: one.edge("\(name)_edge_of_group", group, key: FailureStatements.group),
            .someGroups: one.edge("\(name)_edge_of_some_groups", someGroups, with: groups),
        ]
        if newestFirst {
            let all = FailureRows(of: nil, newestFirst: true)
            let page = all.page("\(name)_page_of_all", columns, all.rows)
            let edge = all.edge("\(name)_edge_of_all", all.rows)
            pages[.everywhere] = page
            edges[.everywhere] = edge
            pages[.someGroupsOfAll] = all.pageOfSomeGroups(
                "\(name)_page_of_some_groups_of_all",
                columns,
                Self.allGroups,
                variant: page
            )
            edges[.someGroupsOfAll] = all.edge(
                "\(name)_edge_of_some_groups_of_all",
                "\(all.rows) AND \(StuckRows.lacksGroups)",
                with: Self.allGroups,
                variant: edge
            )
        } else {
            pages[.ids] = one.pageOfIDs("\(name)_page_of_ids", columns)
        }
        (self.pages, self.edges) = (pages, edges)
    }

    /// SQL: the groups of all organizations. On a Citus cluster, the mutations are read by time instead, because Citus
    /// cannot read one organization after another within a statement.
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

    /// Selects no row. It is used if a path has no statement for the edge of its pages.
    static let noEdge = Statement(
        "operation_no_edge",
        "SELECT NULL::timestamptz AS stuck_at, NULL::uuid AS user_id, NULL::uuid AS id WHERE false"
    )

    static let all =
        [newest.pages, newest.edges, oldest.pages, oldest.edges, counts]
        .flatMap { $0.values.sorted { $0.name < $1.name } } + [noEdge]

    // MARK: - Rows

    /// The parameters of ``isOfGroup``.
    fileprivate static let group = ["group_type", "group_code", "group_status"]
    fileprivate static let isOfGroup =
        "x.entity_type = :group_type AND x.error_code = :group_code AND x.error_status = :group_status"

    /// Whether a row `m` matches the filter.
    fileprivate static let match = "m.status IN (\(MutationStatus.stuckList)) AND \(StuckRows.match("m"))"

    /// The rows `m` with the given ids. Each row is found by the index of ids, because no other index has the order
    /// `x.id`. Without this ORDER BY, a planner without statistics could choose any index that begins with the
    /// organization.
    fileprivate static let byID = """
        (SELECT DISTINCT i.id FROM unnest(:ids::uuid[]) AS i (id)) k
            CROSS JOIN LATERAL (
                SELECT x.stuck_at, x.user_id, x.id, x.status, x.entity_type, x.error_code, x.error_status
                FROM mutations x
                WHERE x.organization_id = :organization AND x.id BETWEEN k.id AND k.id AND \(StuckRows.are("x"))
                ORDER BY x.id
                OFFSET 0
            ) m
        """

    /// The open mutations `m` of a user.
    fileprivate static func byUser(_ end: String) -> String {
        """
        (
                SELECT * FROM mutations x
                WHERE x.organization_id = :organization AND x.user_id = :user AND x.synced_at IS NULL
                ORDER BY x.position
                \(end)
            ) m
        """
    }

    /// The filter for given ids. It can be limited to one user.
    fileprivate static let ofIDs = StuckRows.filter + ["only_user"]

    // MARK: - Counts

    /// The counts of one organization. The parameters are the organization, the latest time, the key of the path and
    /// the filter.
    private static let counts: [Path: Statement] = [
        .organization: count(
            "operation_count",
            """
            SELECT x.user_id FROM mutations x
                WHERE x.organization_id = :organization AND x.stuck_at <= :until AND \(StuckRows.areInTime("x"))
                    AND \(StuckRows.match("x"))
                ORDER BY x.stuck_at, x.user_id, x.id
            """
        ),
        .group: count(
            "operation_count_of_group",
            key: group,
            """
            SELECT x.user_id FROM mutations x
                WHERE x.organization_id = :organization AND x.stuck_at <= :until AND \(isOfGroup) AND \(StuckRows.are("x"))
                    AND \(StuckRows.match("x"))
                ORDER BY x.stuck_at, x.user_id, x.id
            """
        ),
        .someGroups: count(
            "operation_count_of_some_groups",
            """
            SELECT r.user_id FROM g CROSS JOIN LATERAL (
                    SELECT x.user_id FROM mutations x
                    WHERE x.organization_id = :organization AND \(StuckRows.isOf("g")) AND x.stuck_at <= :until
                    ORDER BY x.stuck_at, x.user_id, x.id
                    LIMIT \(BoundedCount.limit + 1)
                ) r
                WHERE \(StuckRows.match("g"))
            """,
            with: StuckRows.withGroups(of: ":organization"),
            isCut: StuckRows.lacksGroups
        ),
        .ids: count(
            "operation_count_of_ids",
            key: ["ids"],
            """
            SELECT m.user_id FROM \(byID)
                WHERE m.stuck_at <= :until AND \(match)
                    AND (:only_user::uuid IS NULL OR m.user_id = :only_user)
            """,
            filter: ofIDs
        ),
        .user: count(
            "operation_count_of_user",
            key: ["user"],
            """
            SELECT m.user_id FROM \(byUser("OFFSET 0"))
                WHERE \(StuckRows.are("m")) AND m.stuck_at <= :until AND \(match)
            """
        ),
    ]

    /// Counts the rows of a query. The query stops at one row more than the maximum count.
    private static func count(
        _ name: String,
        key: [String] = [],
        _ rows: String,
        filter: [String] = StuckRows.filter,
        with groups: String = "",
        isCut: String = "false"
    ) -> Statement {
        Statement(
            name,
            ["organization", "until"] + key + filter,
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
}

/// The rows after a position in a given order, of one organization or of all organizations.
private struct FailureRows {
    /// The parameter with the organization; nil for all organizations.
    private let organization: String?
    private let isNewestFirst: Bool

    init(of organization: String?, newestFirst: Bool) {
        self.organization = organization
        isNewestFirst = newestFirst
    }

    /// The columns of the order. Within one organization, `organization_id` is omitted.
    private func key(_ table: String) -> [String] {
        ["stuck_at", organization == nil ? "organization_id" : nil, "user_id", "id"].compactMap(\.self)
            .map { "\(table).\($0)" }
    }

    private func order(_ table: String) -> String {
        key(table).map { isNewestFirst ? "\($0) DESC" : $0 }.joined(separator: ", ")
    }

    /// The parameters of ``isBehind(_:)``. For one organization, they include the organization's id.
    private var place: [String] {
        organization == nil
            ? ["after", "after_organization", "after_user", "after_id"]
            : ["organization", "after", "after_user", "after_id", "until"]
    }

    private func isBehind(_ table: String) -> String {
        let columns = "(\(key(table).joined(separator: ", ")))"
        if organization == nil { return "\(columns) < (:after, :after_organization, :after_user, :after_id)" }
        return isNewestFirst
            // no bound on the time is used here, because the planner could begin a scan at that bound
            ? "\(columns) < (:after, :after_user, :after_id) AND :until::timestamptz IS NOT NULL"
            : "\(columns) > (:after, :after_user, :after_id) AND \(table).stuck_at <= :until"
    }

    private var isOfOrganization: String { organization.map { "x.organization_id = \($0) AND " } ?? "" }

    /// SQL: the condition on the rows `x`, for a scan of the index by time.
    var rows: String { "\(isOfOrganization)\(isBehind("x")) AND \(StuckRows.areInTime("x"))" }

    /// SQL: the condition on the rows `x` of one group, for a scan of the index by group.
    var rowsOfGroup: String {
        "\(isOfOrganization)\(FailureStatements.isOfGroup) AND \(isBehind("x")) AND \(StuckRows.are("x"))"
    }

    // MARK: - Statements

    func edge(
        _ name: String,
        _ rows: String,
        key: [String] = [],
        with groups: String = "",
        variant: Statement? = nil
    ) -> Statement {
        let place = isNewestFirst ? "x.stuck_at, x.organization_id, x.user_id, x.id" : "x.stuck_at, x.user_id, x.id"
        return Statement(
            name,
            self.place + key + ["scan"],
            """
            \(groups) SELECT \(place)
            FROM mutations x
            WHERE \(rows)
            ORDER BY \(order("x"))
            OFFSET :scan - 1 LIMIT 1
            """,
            variant: variant?.sql
        )
    }

    func page(_ name: String, _ columns: String, _ rows: String, key: [String] = []) -> Statement {
        page(
            name,
            key + ["scan"] + StuckRows.filter,
            columns,
            from: """
                (
                    SELECT * FROM mutations x
                    WHERE \(rows)
                    ORDER BY \(order("x"))
                    LIMIT :scan
                ) m
                """,
            where: FailureStatements.match
        )
    }

    func pageOfUser(_ name: String, _ columns: String) -> Statement {
        page(
            name,
            ["user", "scan"] + StuckRows.filter,
            columns,
            from: FailureStatements.byUser("LIMIT :scan"),
            where: "\(StuckRows.are("m")) AND \(isBehind("m")) AND \(FailureStatements.match)"
        )
    }

    func pageOfIDs(_ name: String, _ columns: String) -> Statement {
        page(
            name,
            ["ids"] + FailureStatements.ofIDs,
            columns,
            from: FailureStatements.byID,
            where: """
                \(isBehind("m")) AND \(FailureStatements.match)
                AND (:only_user::uuid IS NULL OR m.user_id = :only_user)
                """
        )
    }

    private func page(
        _ name: String,
        _ parameters: [String],
        _ columns: String,
        from rows: String,
        where conditions: String
    ) -> Statement {
        Statement(
            name,
            place + parameters + ["limit"],
            """
            SELECT \(columns)
            FROM \(rows)
            WHERE \(conditions)
            ORDER BY \(order("m"))
            LIMIT :limit
            """
        )
    }

    /// Returns the next rows of the matching groups.
    ///
    /// A page of `limit` rows contains rows of at most `limit` groups. Therefore the statement first finds the next row
    /// of each group, and then reads only the groups whose next rows come first. If there are too many groups to list,
    /// the statement finds the next rows by time instead. It reads all columns only of the rows of the page.
    ///
    /// - Parameter groups: the groups `g`.
    func pageOfSomeGroups(
        _ name: String,
        _ columns: String,
        _ groups: String,
        variant: Statement? = nil
    ) -> Statement {
        let place = "x.stuck_at, x.organization_id, x.user_id, x.id"
        func next(ofGroup group: String, limit: String) -> String {
            """
            SELECT \(place)
                            FROM mutations x
                            WHERE x.organization_id = \(organization ?? "\(group).organization_id")
                                AND \(isBehind("x")) AND \(StuckRows.isOf(group))
                                AND x.status IN (\(MutationStatus.stuckList))
                            ORDER BY \(FailureRows(of: ":organization", newestFirst: isNewestFirst).order("x"))
                            LIMIT \(limit)
            """
        }
        return Statement(
            name,
            self.place + ["scan"] + StuckRows.filter + ["limit"],
            """
            \(groups)
            SELECT \(columns)
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
                        SELECT \(place), x.status, x.entity_type, x.error_code, x.error_status
                        FROM mutations x
                        WHERE \(rows) AND \(StuckRows.lacksGroups)
                        ORDER BY \(order("x"))
                        LIMIT :scan
                    ) m
                    WHERE \(FailureStatements.match)
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
}
