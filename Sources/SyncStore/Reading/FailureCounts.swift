package import Foundation
package import Postgres
package import SyncModel

/// Counts of failed and conflicting mutations and of halted lanes, up to a limit.
///
/// Each count has the limit.
package struct FailureCounts: Sendable {
    /// Where a count of one organization ends.
    package static let cap: Int64 = 1_000

    let pool: Pool
    let cluster: Cluster
    let failure: StoreFailure

    /// The counts of organizations, by their ids.
    package func counts(of organizations: [UUID]) async throws(Problem) -> [UUID: OrganizationCounts] {
        do {
            var rows: [(UUID, OrganizationCounts)] = []
            for part in cluster.parts(organizations, by: \.self) {
                let counts = Parameters(part, Self.cap + 1)
                let found = try await pool.transaction { connection in
                    try await connection.runByIndex(Query(Self.ofOrganizations, counts))
                }
                rows += try found.read { row in
                    (try row.uuid("organization_id"), try OrganizationCounts(&row, cap: Self.cap))
                }
            }
            return Dictionary(rows) { first, _ in first }
        } catch {
            throw failure.problem(error, doing: "count what is stuck")
        }
    }

    // MARK: - Statements

    /// The types with mutations that wait for a person, as a recursive query `w`.
    package static func types(of organization: String) -> String { StuckRows.distinct("entity_type", of: organization) }

    /// How many rows of the types `t` have an error code, or another, up to a limit.
    ///
    /// `error_code` distinguishes the statuses, and the index by group has it behind the type.
    private static func count(_ comparisons: [String], upTo limit: String) -> String {
        let rows = comparisons.map { comparison in
            """
            (
                            SELECT 1 FROM mutations x
                            WHERE x.organization_id = t.organization_id AND x.entity_type = t.entity_type
                                AND x.error_code \(comparison) 'conflict' AND \(StuckRows.are("x"))
                            ORDER BY x.error_code
                            LIMIT \(limit)
                        )
            """
        }
        return """
            (SELECT count(*) FROM (
                    SELECT 1 FROM t CROSS JOIN LATERAL (
                        \(rows.joined(separator: " UNION ALL "))
                    ) r
                    LIMIT \(limit)
                ) y)
            """
    }

    /// The counts of both statuses, each up to its own limit, and of searched types.
    package static func counts(upTo limit: String) -> String {
        """
        SELECT \(count(["<", ">"], upTo: limit)) AS failed,
            \(count(["="], upTo: limit)) AS conflict,
            (SELECT count(*) FROM t) AS looked
        """
    }

    /// The counts of organizations (`organizations`), up to `limit` of each.
    package static let ofOrganizations = Statement(
        "now_of_organizations",
        ["organizations", "limit"],
        """
        SELECT k.organization_id, m.failed, m.conflict, m.looked, h.halted
        FROM unnest(:organizations::uuid[]) AS k (organization_id)
        CROSS JOIN LATERAL (
            WITH RECURSIVE \(types(of: "k.organization_id")),
                t AS MATERIALIZED (SELECT k.organization_id AS organization_id, w.entity_type FROM w LIMIT :limit)
            \(counts(upTo: ":limit"))
        ) m
        CROSS JOIN LATERAL (
            SELECT count(*) AS halted
            FROM (SELECT 1 FROM lanes l WHERE l.organization_id = k.organization_id AND l.halted_by IS NOT NULL LIMIT :limit) z
        ) h
        """
    )
}
