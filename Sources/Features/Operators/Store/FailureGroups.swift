package import FoundationEssentials
import Postgres
package import SyncModel
import SyncStore

/// Groups the stuck mutations (failed or in conflict) of all organizations by common properties. For each group,
/// returns the number of its mutations, and the times of its first and its last mutation.
///
/// Apart from counts, which stop at a limit, no step reads more rows than it returns.
package struct FailureGroups: Sendable {
    /// A page of groups. The pages are ordered by organization and key, and the groups of a page are ordered by count.
    package struct Page: Sendable {
        package let groups: [FailureGroup]
        package let next: String?
        /// Whether an organization has more groups than were read.
        package let isPartial: Bool
    }

    /// The maximum number of organizations that one page reads.
    static let organizations: Int64 = 100
    /// The maximum number of groups that are read in one organization.
    static let walk: Int64 = 200

    let pool: Pool
    let cluster: Cluster
    let catalog: Catalog
    let failure: StoreFailure

    /// - Parameters:
    ///   - organization: restricts the list to this organization; nil lists all organizations.
    ///   - limit: the maximum number of groups on the page, 1 to 100.
    ///   - cursor: `next` of the previous page.
    /// - Throws: `invalid_request` for a cursor that is invalid or was made with another filter.
    package func page(
        _ filter: FailureFilter,
        organization: UUID?,
        limit: Int,
        cursor: String?
    ) async throws(Problem) -> Page {
        let start = try FailureGroupCursor(cursor, filter, organization)
        do {
            let owners = try await pool.run([owners(organization, from: start.organization)])[0].read { row in
                (id: try row.read("id", as: UUID.self), name: try row.read("name", as: String.self))
            }
            let walked = owners.prefix(Int(Self.organizations))
            let names = Dictionary(uniqueKeysWithValues: owners.map { ($0.id, $0.name) })
            var found: [Row] = []
            for part in cluster.parts(walked.map(\.id), by: \.self) where found.count <= limit {
                let query = query(part, filter, after: start, limit: limit - found.count)
                found += try await pool.readByIndex(query)
                    .read { try Row(&$0, names) }
            }
            let page = Array(found.prefix(limit))
            var groups = page.map(\.group)
            try await open(&groups, page.map(\.error))
            var next: String?
            if found.count > limit, let last = groups.last {
                next = start.next(last.organization, last.key)
            } else if owners.count > walked.count, let last = owners.last {
                next = start.next(last.id, nil)
            }
            return Page(
                groups: groups.sorted { ($0.count.count, $0.lastAt) > ($1.count.count, $1.lastAt) },
                next: next,
                isPartial: found.contains { $0.number >= Self.walk }
            )
        } catch {
            throw failure.problem(error, doing: "group failed mutations")
        }
    }

    private func owners(_ organization: UUID?, from first: UUID) -> Query {
        let last = organization ?? UUID.greatest
        return Self.ownersStatement(first: first, last: last, limit: Self.organizations + 1)
    }

    private func query(_ owners: [UUID], _ filter: FailureFilter, after start: FailureGroupCursor, limit: Int) -> Query
    {
        let after = owners.map { $0 == start.organization ? start.key : nil }
        var parameters = Parameters(
            owners,
            after.map { $0?.entityType ?? "" },
            after.map { $0?.errorCode ?? "" },
            after.map { $0?.responseStatus ?? -1 }
        )
        parameters.add(Self.walk)
        parameters.add(limit + 1)
        parameters.add(BoundedCount.limit + 1)
        parameters.add(groupsOf: filter)
        return Query(Self.groupsStatement, parameters)
    }

    /// Decrypts the problem of each group's example (its newest mutation). If an organization's keys are unavailable,
    /// its problems stay encrypted.
    private func open(_ groups: inout [FailureGroup], _ errors: [[UInt8]]) async throws {
        for (organization, places) in Dictionary(grouping: groups.indices, by: { groups[$0].organization }) {
            let rows = places.map { (groups[$0].user, groups[$0].mutation, errors[$0]) }
            let details: [String?]
            do {
                details = try await catalog.opening(organization) { seal in
                    try rows.map { user, id, error in
                        var closed: [String] = []
                        return try LaneSeal(seal: seal, user: user).read(json: error, .error, of: id, &closed)
                            .flatMap { StoredProblem($0).detail }
                    }
                }
            } catch is SealError {
                continue
            }
            for (place, detail) in zip(places, details) { groups[place].detail = detail }
        }
    }

    private struct Row: Sendable {
        let group: FailureGroup
        let error: [UInt8]
        /// The group's number among its organization's groups, starting at 1.
        let number: Int64

        init(_ row: inout RowReader, _ names: [UUID: String]) throws {
            let organization: UUID = try row.read("organization_id")
            group = FailureGroup(
                organization: organization,
                organizationName: names[organization] ?? "",
                key: FailureGroup.Key(
                    entityType: try row.read("entity_type"),
                    errorCode: try row.read("error_code"),
                    responseStatus: try row.read("error_status")
                ),
                count: BoundedCount(found: try row.read("count")),
                firstAt: try row.read("first_at"),
                lastAt: try row.read("stuck_at"),
                user: try row.read("user_id"),
                mutation: try row.read("id")
            )
            error = try row.read("error")
            number = try row.read("number")
        }
    }

    // MARK: - Statements

    /// Selects the organizations with stuck mutations, ordered by id.
    static let ownersStatement = Statement(
        "stuck_owners",
        ["first", "last", "limit"],
        """
        SELECT o.id, o.name
        FROM organizations o
        CROSS JOIN LATERAL (
            SELECT 1 FROM mutations x WHERE x.organization_id = o.id AND \(StuckRows.areInTime("x"))
            ORDER BY x.stuck_at LIMIT 1
        ) s
        WHERE o.id >= :first AND o.id <= :last
        ORDER BY o.id
        LIMIT :limit
        """
    )

    /// SQL that finds the next group of the organization `k`: the first row whose columns follow those of the previous
    /// group.
    ///
    /// - Parameter after: the names of the columns that contain the entity type, error code and status of the previous
    ///   group.
    private static func first(behind after: String) -> String {
        """
        SELECT x.entity_type, x.error_code, x.error_status
                    FROM mutations x
                    WHERE x.organization_id = k.organization_id AND \(StuckRows.are("x"))
                        AND (x.entity_type, x.error_code, x.error_status) > (\(after))
                    ORDER BY x.entity_type, x.error_code, x.error_status
                    LIMIT 1
        """
    }

    private static let isOfGroup = """
        x.organization_id = p.organization_id AND x.entity_type = p.entity_type AND x.error_code = p.error_code
                AND x.error_status = p.error_status AND \(StuckRows.are("x"))
        """

    /// Finds the groups of a page, each by one look-up, and counts their mutations.
    ///
    /// The groups are found in the order of the page, because lateral joins keep the order of the list of organizations
    /// and, within each organization, the order of its groups. If the groups were sorted before the page's limit is
    /// applied, every page would read the groups of all organizations. The last `ORDER BY` sorts only the rows of the
    /// page.
    static let groupsStatement = Statement(
        "stuck_groups",
        ["organizations", "after_types", "after_codes", "after_statuses", "walk", "limit", "counted"]
            + StuckRows.filter,
        """
        SELECT p.organization_id, p.entity_type, p.error_code, p.error_status, c.count, f.first_at, l.stuck_at, l.user_id,
            l.id, l.error, p.number
        FROM (
            SELECT k.organization_id, k.place, g.entity_type, g.error_code, g.error_status, g.number
            FROM unnest(:organizations::uuid[], :after_types::text[], :after_codes::text[], :after_statuses::int2[])
                WITH ORDINALITY AS k (organization_id, entity_type, error_code, error_status, place)
            CROSS JOIN LATERAL (
                WITH RECURSIVE w AS (
                    SELECT s.*, 1::int8 AS number
                    FROM (
                        \(first(behind: "k.entity_type, k.error_code, k.error_status"))
                    ) s
                    UNION ALL
                    SELECT n.*, w.number + 1
                    FROM w CROSS JOIN LATERAL (
                        \(first(behind: "w.entity_type, w.error_code, w.error_status"))
                    ) n
                )
                SELECT * FROM w LIMIT :walk
            ) g
            WHERE \(StuckRows.match("g"))
            LIMIT :limit
        ) p
        CROSS JOIN LATERAL (
            SELECT count(*) AS count FROM (SELECT 1 FROM mutations x WHERE \(isOfGroup) LIMIT :counted) y
        ) c
        CROSS JOIN LATERAL (
            SELECT x.stuck_at AS first_at FROM mutations x WHERE \(isOfGroup)
            ORDER BY x.stuck_at, x.user_id, x.id LIMIT 1
        ) f
        CROSS JOIN LATERAL (
            SELECT x.stuck_at, x.user_id, x.id, x.error FROM mutations x WHERE \(isOfGroup)
            ORDER BY x.stuck_at DESC, x.user_id DESC, x.id DESC LIMIT 1
        ) l
        ORDER BY p.place, p.number
        """
    )

    static let statements = [ownersStatement, groupsStatement]
}
