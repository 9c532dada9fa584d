package import FoundationEssentials
package import Postgres
package import SyncModel

/// Counts failed and conflicting mutations, and halted lanes. Each count has an upper limit.
package struct FailureCounts: Sendable {
    /// The upper limit of each count of one organization.
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
                    (try row.read("organization_id", as: UUID.self), try OrganizationCounts(&row, cap: Self.cap))
                }
            }
            return Dictionary(rows) { first, _ in first }
        } catch {
            throw failure.problem(error, doing: "count failed mutations")
        }
    }

    // MARK: - Statements

    /// SQL for the types with mutations that wait for a person, as a recursive query `w`.
    package static func types(of organization: String) -> String { StuckRows.distinct("entity_type", of: organization) }

    /// SQL that counts the rows of the types `t` whose error code matches one of the comparisons, up to a limit.
    ///
    /// The index by group has the columns type, error code and error status, in this order. The error code `conflict`
    /// means the status `conflict`. All other codes mean `failed`.
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

    /// SQL for the counts of both statuses, each up to its own limit, and for the number of searched types.
    package static func counts(upTo limit: String) -> String {
        """
        SELECT \(count(["<", ">"], upTo: limit)) AS failed,
            \(count(["="], upTo: limit)) AS conflict,
            (SELECT count(*) FROM t) AS looked
        """
    }

    /// Reads the counts of the organizations in `organizations`, each up to `limit`.
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

/// The common parts of queries about mutations that wait for a person.
package enum StuckRows {
    /// The maximum number of groups that one query visits. A group has the mutations with one type, error code and
    /// error status.
    package static let walk = 10_000

    /// SQL for whether a row waits for a person.
    ///
    /// The condition is exactly the predicate of the indexes `stuck_mutations_…`.
    package static func are(_ table: String) -> String {
        "\(table).stuck_at IS NOT NULL AND \(table).error IS NOT NULL AND \(table).synced_at IS NULL"
    }

    /// SQL for whether a row waits for a person, for queries that are ordered by time.
    ///
    /// A query can use the indexes by time only with this condition.
    package static func areInTime(_ table: String) -> String { "\(are(table)) AND \(table).position > 0" }

    /// SQL for whether a row `x` belongs to the group of the row called `group`.
    package static func isOf(_ group: String) -> String {
        """
        x.entity_type = \(group).entity_type AND x.error_code = \(group).error_code
                    AND x.error_status = \(group).error_status AND \(are("x"))
        """
    }

    /// SQL for the groups of an organization, as a recursive query `w`.
    ///
    /// The query visits one group after another, with one look-up for each.
    package static func groups(of organization: String) -> String {
        distinct("entity_type", "error_code", "error_status", of: organization)
    }

    /// SQL for the distinct values of some columns in an organization, as a recursive query `w`.
    ///
    /// The query visits one value after another. Each visit is a look-up in the index by group. Therefore the columns
    /// must be the leading columns of this index.
    package static func distinct(_ columns: String..., of organization: String) -> String {
        func key(_ table: String) -> String { columns.map { "\(table).\($0)" }.joined(separator: ", ") }
        func first(_ behind: String) -> String {
            """
            SELECT \(key("x"))
                    FROM mutations x
                    WHERE x.organization_id = \(organization) AND \(are("x"))\(behind)
                    ORDER BY \(key("x"))
                    LIMIT 1
            """
        }
        return """
            w AS (
                SELECT s.* FROM (
                    \(first(""))
                ) s
                UNION ALL
                SELECT n.* FROM w CROSS JOIN LATERAL (
                    \(first(" AND (\(key("x"))) > (\(key("w")))"))
                ) n
            )
            """
    }

    /// SQL for the beginning of a statement that reads the groups `g` of one organization.
    package static func withGroups(of organization: String) -> String {
        "WITH RECURSIVE \(groups(of: organization)), g AS MATERIALIZED (SELECT * FROM w LIMIT \(walk))"
    }

    /// SQL for whether `g` contains all groups.
    ///
    /// This condition does not depend on rows. Therefore PostgreSQL evaluates it once. If it is false, PostgreSQL skips
    /// the part of the query that has this condition.
    package static let hasAllGroups = "(SELECT count(*) FROM g) < \(walk)"
    package static let lacksGroups = "(SELECT count(*) FROM g) >= \(walk)"

    /// SQL for whether a row belongs to one of the requested groups.
    ///
    /// The error code `conflict` means the status `conflict`. All other codes mean `failed`. The parameters are those
    /// of ``filter``.
    package static func match(_ table: String) -> String {
        """
        (cardinality(:statuses::text[]) = 0
                OR CASE WHEN \(table).error_code = 'conflict' THEN 'conflict' ELSE 'failed' END = ANY (:statuses))
                AND (:entity_type::text IS NULL OR \(table).entity_type = :entity_type)
                AND (:error_code::text IS NULL OR \(table).error_code = :error_code)
                AND (:error_status::int2 IS NULL OR \(table).error_status = :error_status)
        """
    }

    /// The parameters of ``match(_:)``. `Parameters.add(groupsOf:)` adds their values.
    package static let filter = ["statuses", "entity_type", "error_code", "error_status"]
}

extension FailureFilter {
    /// Whether the filter excludes some groups.
    ///
    /// If so, two successive matches can be far apart in time.
    package var isOfSomeGroups: Bool {
        Set(statuses).count == 1 || entityType != nil || errorCode != nil || responseStatus != nil
    }
}

extension Parameters {
    /// Adds the parameters of ``StuckRows/match(_:)``.
    package mutating func add(groupsOf filter: FailureFilter) {
        add(filter.statuses.map(\.rawValue))
        add(filter.entityType)
        add(filter.errorCode)
        add(filter.responseStatus)
    }
}
