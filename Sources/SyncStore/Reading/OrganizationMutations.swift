package import FoundationEssentials
import Postgres
package import SyncModel

/// Lists mutations over all users of an organization, for operators.
extension MutationReader {
    /// The maximum number of mutations that one page reads.
    ///
    /// If few mutations match the filter, a page is short, but not slow.
    static let scan: Int64 = 50_000

    /// Returns a page of an organization's mutations, by user and in lane order.
    ///
    /// A page that is not the last can have fewer mutations than the limit, or be empty.
    ///
    /// - Parameter user: restricts the list to this user; nil lists the mutations of all users.
    /// - Throws: `invalid_request` for an invalid cursor, or for a cursor of another filter.
    package func list(
        _ filter: MutationFilter,
        organization: Organization,
        of user: UUID?
    ) async throws(Problem) -> MutationPage {
        let after = try OrganizationMutationCursor(filter, user)
        var parameters = Parameters(of: organization.id, after.user, after.position, Self.scan)
        let edgeParameters = parameters
        var found: [MutationDetail] = []
        var edge: (user: UUID, position: Int64)?
        do {
            let rows = try await pool.runInOrder(Query(Self.organizationEdgeStatement, edgeParameters))
            edge = try rows.read { (try $0.read("user_id", as: UUID.self), try $0.read("position", as: Int64.self)) }
                .first
            // the mutations of a user are adjacent; if the edge (the last mutation that the page may read) belongs to
            // another user, it follows all mutations of this user, and does not limit the page
            if let user, edge?.user != user { edge = nil }
            parameters = Parameters()
            parameters.add(organization.id)
            parameters.add(after.user)
            parameters.add(after.position)
            parameters.add(edge?.user ?? user ?? UUID.greatest)
            parameters.add(edge?.position ?? .max)
            parameters.add(filter.statuses.map(\.rawValue))
            parameters.add(filter.deviceID)
            parameters.add(filter.entityType)
            parameters.add(user)
            parameters.add(filter.limit + 1)
            parameters.add(Self.pageBytes)
            found = try await catalog.opening(organization.id) { [parameters] seal in
                let page = try await pool.runInOrder(Query(Self.organizationStatement, parameters))
                return try page.readSealed { row in
                    let user: UUID = try row.read("user_id")
                    return try MutationDetail(&row, user: user, seal)
                }
            }
        } catch {
            throw failure.problem(error, doing: "list an organization's mutations")
        }
        let page = found.prefix(filter.limit)
        var next = edge.map { after.next($0.user, $0.position) }
        if let last = page.last, found.count > filter.limit || last.hasMore {
            next = after.next(last.user, last.record.position)
        }
        return self.page(page, of: organization, next: next)
    }

    /// Finds the last mutation that a page reads. Returns no row if there are fewer mutations than the page may read.
    ///
    /// All positions are above 0, but without the condition on the position PostgreSQL would not use the index by
    /// position.
    static let organizationEdgeStatement = Statement(
        "mutations_organization_edge",
        ["organization", "after_user", "after_position", "scan"],
        """
        SELECT x.user_id, x.position
        FROM mutations x
        WHERE x.organization_id = :organization AND (x.user_id, x.position) > (:after_user, :after_position) AND x.position > 0
        ORDER BY x.user_id, x.position
        OFFSET :scan - 1 LIMIT 1
        """
    )

    private static let past = RowBytes.stop(
        when: "r.place > 1 AND r.bytes_to > :bytes",
        by: "r.user_id, r.position",
        includesExceeding: false
    )

    /// Lists mutations over all users, in the same form as a user's list.
    ///
    /// The statement reads one mutation more than the page contains. If payloads are large, it reads fewer mutations.
    static let organizationStatement = Statement(
        "mutations_organization_list",
        [
            "organization", "after_user", "after_position", "to_user", "to_position", "statuses", "device",
            "entity_type", "user", "limit", "bytes",
        ],
        """
        SELECT m.user_id, \(MutationDetail.list), m.has_more
        FROM (
            SELECT r.*, r.place < r.found AS has_more, \(past) AS past
            FROM (
                SELECT p.*, row_number() OVER w AS place, sum(\(MutationColumn.detailBytes)) OVER w AS bytes_to
                FROM (
                    SELECT y.*, count(*) OVER () AS found
                    FROM (
                        SELECT x.* FROM mutations x
                        WHERE x.organization_id = :organization AND (x.user_id, x.position) > (:after_user, :after_position)
                            AND (x.user_id, x.position) <= (:to_user, :to_position) AND x.position > 0
                            AND (cardinality(:statuses::text[]) = 0 OR x.status = ANY (:statuses))
                            AND (:device::uuid IS NULL OR x.device_id = :device)
                            AND (:entity_type::text IS NULL OR x.entity_type = :entity_type)
                            AND (:user::uuid IS NULL OR x.user_id = :user)
                        ORDER BY x.user_id, x.position
                        LIMIT :limit
                    ) y
                ) p
                WINDOW w AS (ORDER BY p.user_id, p.position ROWS UNBOUNDED PRECEDING)
            ) r
        ) m
        WHERE m.past < 1
        ORDER BY m.user_id, m.position
        """
    )

    static let organizationStatements = [Pool.orderShape, organizationEdgeStatement, organizationStatement]
}

/// The counts of mutations that wait for a person, and of halted lanes, in an organization.
package struct OrganizationCounts: Sendable {
    package let failed: BoundedCount
    package let conflict: BoundedCount
    package let haltedLanes: BoundedCount

    /// Reads the counts from a row. The caller has already read the column `organization_id`.
    init(_ row: inout RowReader, cap: Int64) throws {
        let (failed, conflict) = (try row.read("failed", as: Int64.self), try row.read("conflict", as: Int64.self))
        let looked: Int64 = try row.read("looked")
        self.failed = BoundedCount(found: failed, among: looked, limit: cap)
        self.conflict = BoundedCount(found: conflict, among: looked, limit: cap)
        haltedLanes = BoundedCount(found: try row.read("halted"), limit: cap)
    }
}
