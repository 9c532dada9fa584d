import Postgres
import SyncModel
import SyncStore

/// The statements of ``FailureQuery``: for each path its pages and their edges, in one of two orders, and its counts.
///
/// The parameters of one organization are `$1` the organization, `$2` to `$4` the place, `$5` the latest moment, then the
/// key of the path, the number of rows to read, the filter and the limit.
struct FailureStatements: Sendable {
    typealias Path = FailureQuery.Path

    /// Whole mutations, newest first.
    static let newest = FailureStatements("stuck", newestFirst: true, StuckMutation.list)
    /// Places, in the order in which mutations got stuck.
    static let oldest = FailureStatements("operation", newestFirst: false, "m.stuck_at, m.user_id, m.id")

    private let pages: [Path: Statement]
    private let edges: [Path: Statement]

    func page(_ path: Path) -> Statement { pages[path] ?? Self.noEdge }

    /// The last row that a page reads. Without one, a page that is not full is the last one.
    func edge(_ path: Path) -> Statement? { edges[path] }

    static func count(_ path: Path) -> Statement { counts[path] ?? noEdge }

    private init(_ name: String, newestFirst: Bool, _ columns: String) {
        let one = FailureRows(of: "$1", newestFirst: newestFirst)
        let (organization, group) = (one.rows, one.rowsOfGroup(from: 6))
        let someGroups = "\(organization) AND \(StuckRows.lacksGroups)"
        let groups = StuckRows.withGroups(of: "$1")
        var pages: [Path: Statement] = [
            .organization: one.page("\(name)_page_of_organization", columns, organization, scan: 6),
            .group: one.page("\(name)_page_of_group", columns, group, scan: 9),
            .someGroups: one.pageOfSomeGroups("\(name)_page_of_some_groups", columns, groups, scan: 6),
            .user: one.pageOfUser("\(name)_page_of_user", columns),
        ]
        var edges: [Path: Statement] = [
            .organization: one.edge("\(name)_edge_of_organization", organization, scan: 6),
            .group: one.edge("\(name)_edge_of_group", group, scan: 9),
            .someGroups: one.edge("\(name)_edge_of_some_groups", someGroups, scan: 6, with: groups),
        ]
        if newestFirst {
            let all = FailureRows(of: nil, newestFirst: true)
            let (page, edge) = ("\(name)_page_of_all", "\(name)_edge_of_all")
            let ofAll = (page: all.page(page, columns, all.rows, scan: 5), edge: all.edge(edge, all.rows, scan: 5))
            pages[.everywhere] = ofAll.page
            edges[.everywhere] = ofAll.edge
            pages[.someGroupsOfAll] = all.pageOfSomeGroups(
                "\(name)_page_of_some_groups_of_all",
                columns,
                Self.allGroups,
                scan: 5,
                variant: ofAll.page
            )
            edges[.someGroupsOfAll] = all.edge(
                "\(name)_edge_of_some_groups_of_all",
                "\(all.rows) AND \(StuckRows.lacksGroups)",
                scan: 5,
                with: Self.allGroups,
                variant: ofAll.edge
            )
        } else {
            pages[.ids] = one.pageOfIDs("\(name)_page_of_ids", columns)
        }
        (self.pages, self.edges) = (pages, edges)
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

    /// Where nothing is left behind a page.
    static let noEdge = Statement(
        "operation_no_edge",
        "SELECT NULL::timestamptz AS stuck_at, NULL::uuid AS user_id, NULL::uuid AS id WHERE false"
    )

    static let all =
        [newest, oldest].flatMap { Array($0.pages.values) + Array($0.edges.values) } + counts.values + [noEdge]

    // MARK: - Rows

    fileprivate static func isOfGroup(from first: Int) -> String {
        "x.entity_type = $\(first) AND x.error_code = $\(first + 1) AND x.error_status = $\(first + 2)"
    }

    /// Whether a row `m` is meant.
    fileprivate static func match(from first: Int) -> String {
        "m.status IN (\(MutationStatus.stuckList)) AND \(StuckRows.match("m", from: first))"
    }

    /// The rows `m` of some ids, each by the index that has it: in an order that it alone has, for a planner that knows
    /// nothing of the table takes any of an organization's for as good.
    fileprivate static func byID(_ ids: Int) -> String {
        """
        (SELECT DISTINCT i.id FROM unnest($\(ids)::uuid[]) AS i (id)) k
            CROSS JOIN LATERAL (
                SELECT x.stuck_at, x.user_id, x.id, x.status, x.entity_type, x.error_code, x.error_status
                FROM mutations x
                WHERE x.organization_id = $1 AND x.id BETWEEN k.id AND k.id AND \(StuckRows.are("x"))
                ORDER BY x.id
                OFFSET 0
            ) m
        """
    }

    /// The open mutations `m` of a user.
    fileprivate static func byUser(_ user: Int, _ end: String) -> String {
        """
        (
                SELECT * FROM mutations x
                WHERE x.organization_id = $1 AND x.user_id = $\(user) AND x.synced_at IS NULL
                ORDER BY x.position
                \(end)
            ) m
        """
    }

    // MARK: - Counts

    /// The counts of one organization: `$1` the organization, `$2` the latest moment, the key of the path, the filter.
    private static let counts: [Path: Statement] = [
        .organization: count(
            "operation_count",
            """
            SELECT x.user_id FROM mutations x
                WHERE x.organization_id = $1 AND x.stuck_at <= $2 AND \(StuckRows.areInTime("x"))
                    AND \(StuckRows.match("x", from: 3))
                ORDER BY x.stuck_at, x.user_id, x.id
            """
        ),
        .group: count(
            "operation_count_of_group",
            """
            SELECT x.user_id FROM mutations x
                WHERE x.organization_id = $1 AND x.stuck_at <= $2 AND \(isOfGroup(from: 3)) AND \(StuckRows.are("x"))
                    AND \(StuckRows.match("x", from: 6))
                ORDER BY x.stuck_at, x.user_id, x.id
            """
        ),
        .someGroups: count(
            "operation_count_of_some_groups",
            """
            SELECT r.user_id FROM g CROSS JOIN LATERAL (
                    SELECT x.user_id FROM mutations x
                    WHERE x.organization_id = $1 AND \(StuckRows.isOf("g")) AND x.stuck_at <= $2
                    ORDER BY x.stuck_at, x.user_id, x.id
                    LIMIT \(BoundedCount.limit + 1)
                ) r
                WHERE \(StuckRows.match("g", from: 3))
            """,
            with: StuckRows.withGroups(of: "$1"),
            isCut: StuckRows.lacksGroups
        ),
        .ids: count(
            "operation_count_of_ids",
            """
            SELECT m.user_id FROM \(byID(3))
                WHERE m.stuck_at <= $2 AND \(match(from: 4)) AND ($8::uuid IS NULL OR m.user_id = $8)
            """
        ),
        .user: count(
            "operation_count_of_user",
            """
            SELECT m.user_id FROM \(byUser(3, "OFFSET 0"))
                WHERE \(StuckRows.are("m")) AND m.stuck_at <= $2 AND \(match(from: 4))
            """
        ),
    ]

    /// Counts the rows of a query, which ends at one more than is counted.
    private static func count(
        _ name: String,
        _ rows: String,
        with groups: String = "",
        isCut: String = "false"
    ) -> Statement {
        Statement(
            name,
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

/// The rows behind a place in an order: of one organization, or of all.
private struct FailureRows {
    /// The parameter with the organization; nil for all.
    private let organization: String?
    private let isNewestFirst: Bool

    init(of organization: String?, newestFirst: Bool) {
        self.organization = organization
        isNewestFirst = newestFirst
    }

    /// The columns of the order. An index that begins with the organization is in the order of the others.
    private func key(_ table: String) -> [String] {
        ["stuck_at", organization == nil ? "organization_id" : nil, "user_id", "id"].compactMap(\.self)
            .map { "\(table).\($0)" }
    }

    private func order(_ table: String) -> String {
        key(table).map { isNewestFirst ? "\($0) DESC" : $0 }.joined(separator: ", ")
    }

    private func isBehind(_ table: String) -> String {
        let columns = "(\(key(table).joined(separator: ", ")))"
        if organization == nil { return "\(columns) < ($1, $2, $3, $4)" }
        return isNewestFirst
            // a bound on the time would be a second place at which a scan could begin
            ? "\(columns) < ($2, $3, $4) AND $5::timestamptz IS NOT NULL"
            : "\(columns) > ($2, $3, $4) AND \(table).stuck_at <= $5"
    }

    private var isOfOrganization: String { organization.map { "x.organization_id = \($0) AND " } ?? "" }

    /// The rows `x`, by the index by time.
    var rows: String { "\(isOfOrganization)\(isBehind("x")) AND \(StuckRows.areInTime("x"))" }

    /// The rows `x` of a whole group, by the index by group.
    func rowsOfGroup(from first: Int) -> String {
        "\(isOfOrganization)\(FailureStatements.isOfGroup(from: first)) AND \(isBehind("x")) AND \(StuckRows.are("x"))"
    }

    // MARK: - Statements

    func edge(
        _ name: String,
        _ rows: String,
        scan: Int,
        with groups: String = "",
        variant: Statement? = nil
    ) -> Statement {
        let place = isNewestFirst ? "x.stuck_at, x.organization_id, x.user_id, x.id" : "x.stuck_at, x.user_id, x.id"
        return Statement(
            name,
            """
            \(groups) SELECT \(place)
            FROM mutations x
            WHERE \(rows)
            ORDER BY \(order("x"))
            OFFSET $\(scan) - 1 LIMIT 1
            """,
            variant: variant?.sql
        )
    }

    func page(_ name: String, _ columns: String, _ rows: String, scan: Int) -> Statement {
        page(
            name,
            columns,
            from: """
                (
                    SELECT * FROM mutations x
                    WHERE \(rows)
                    ORDER BY \(order("x"))
                    LIMIT $\(scan)
                ) m
                """,
            where: FailureStatements.match(from: scan + 1),
            limit: scan + 5
        )
    }

    func pageOfUser(_ name: String, _ columns: String) -> Statement {
        page(
            name,
            columns,
            from: FailureStatements.byUser(6, "LIMIT $7"),
            where: "\(StuckRows.are("m")) AND \(isBehind("m")) AND \(FailureStatements.match(from: 8))",
            limit: 12
        )
    }

    func pageOfIDs(_ name: String, _ columns: String) -> Statement {
        page(
            name,
            columns,
            from: FailureStatements.byID(6),
            where:
                "\(isBehind("m")) AND \(FailureStatements.match(from: 7)) AND ($11::uuid IS NULL OR m.user_id = $11)",
            limit: 12
        )
    }

    private func page(
        _ name: String,
        _ columns: String,
        from rows: String,
        where conditions: String,
        limit: Int
    ) -> Statement {
        Statement(
            name,
            """
            SELECT \(columns)
            FROM \(rows)
            WHERE \(conditions)
            ORDER BY \(order("m"))
            LIMIT $\(limit)
            """
        )
    }

    /// The next of the groups that are meant: among those whose first is next, for a page has no more groups than rows.
    /// Where there are too many groups, the next of all in time. Only those of the page are read whole.
    ///
    /// - Parameter groups: the groups `g`.
    func pageOfSomeGroups(
        _ name: String,
        _ columns: String,
        _ groups: String,
        scan: Int,
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
                            ORDER BY \(FailureRows(of: "$1", newestFirst: isNewestFirst).order("x"))
                            LIMIT \(limit)
            """
        }
        return Statement(
            name,
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
                        WHERE \(StuckRows.match("g", from: scan + 1)) AND \(StuckRows.hasAllGroups)
                        ORDER BY \(order("x"))
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
                        ORDER BY \(order("x"))
                        LIMIT $\(scan)
                    ) m
                    WHERE \(FailureStatements.match(from: scan + 1))
                ) x
                ORDER BY \(order("x"))
                LIMIT $\(scan + 5)
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
