import Postgres
package import SyncModel

/// What the queries about mutations that wait for a person have in common.
package enum StuckRows {
    /// Groups that one query visits.
    package static let walk = 10_000

    /// Whether a row waits for a person.
    ///
    /// Exactly the predicate of the indexes `stuck_mutations_…`.
    package static func are(_ table: String) -> String {
        "\(table).stuck_at IS NOT NULL AND \(table).error IS NOT NULL AND \(table).synced_at IS NULL"
    }

    /// The same for those queries that are ordered by time.
    ///
    /// It enables the indexes by time for them, and for them alone.
    package static func areInTime(_ table: String) -> String { "\(are(table)) AND \(table).position > 0" }

    /// Whether a row `x` is of the group that a row is called `group` for.
    package static func isOf(_ group: String) -> String {
        """
        x.entity_type = \(group).entity_type AND x.error_code = \(group).error_code
                    AND x.error_status = \(group).error_status AND \(are("x"))
        """
    }

    /// The groups of an organization, as a recursive query `w`.
    ///
    /// It visits one group after another, with a look-up for each.
    package static func groups(of organization: String) -> String {
        distinct("entity_type", "error_code", "error_status", of: organization)
    }

    /// The distinct values of some columns in an organization, as a query `w`.
    ///
    /// The query is recursive and visits one value after another. Each is a look-up in the index by group, which these
    /// columns lead.
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

    /// The beginning of a statement that reads the groups `g` of one organization.
    package static func withGroups(of organization: String) -> String {
        "WITH RECURSIVE \(groups(of: organization)), g AS MATERIALIZED (SELECT * FROM w LIMIT \(walk))"
    }

    /// Whether `g` has all groups.
    ///
    /// A condition of the whole query, which decides whether its part is executed.
    package static let hasAllGroups = "(SELECT count(*) FROM g) < \(walk)"
    package static let lacksGroups = "(SELECT count(*) FROM g) >= \(walk)"

    /// Whether a row is of one of the requested groups.
    ///
    /// `error_code` distinguishes the statuses. The parameters are those of ``filter``.
    package static func match(_ table: String) -> String {
        """
        (cardinality(:statuses::text[]) = 0
                OR CASE WHEN \(table).error_code = 'conflict' THEN 'conflict' ELSE 'failed' END = ANY (:statuses))
                AND (:entity_type::text IS NULL OR \(table).entity_type = :entity_type)
                AND (:error_code::text IS NULL OR \(table).error_code = :error_code)
                AND (:error_status::int2 IS NULL OR \(table).error_status = :error_status)
        """
    }

    /// The parameters of ``match(_:)``, which `Parameters.add(groupsOf:)` adds.
    package static let filter = ["statuses", "entity_type", "error_code", "error_status"]
}

extension FailureFilter {
    /// Whether it leaves some groups out.
    ///
    /// Matches may then be far from the next in time.
    package var isOfSomeGroups: Bool {
        Set(statuses).count == 1 || entityType != nil || errorCode != nil || responseStatus != nil
    }
}

extension Parameters {
    /// The parameters of ``StuckRows/match(_:)``.
    package mutating func add(groupsOf filter: FailureFilter) {
        add(filter.statuses.map(\.rawValue))
        add(filter.entityType)
        add(filter.errorCode)
        add(filter.responseStatus)
    }
}
