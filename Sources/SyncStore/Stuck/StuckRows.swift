import Postgres
import SyncModel

/// What the queries about mutations that stand still have in common.
enum StuckRows {
    /// Whether a row stands still: the predicate of the indexes `stuck_mutations_…`, to the letter.
    static func are(_ table: String) -> String {
        "\(table).stuck_at IS NOT NULL AND \(table).error IS NOT NULL AND \(table).synced_at IS NULL"
    }

    /// The same for those queries that go by time: it opens the indexes by time to them, and to them alone.
    static func areInTime(_ table: String) -> String { "\(are(table)) AND \(table).position > 0" }

    /// Whether a row is of one of the wanted groups: `error_code` tells the statuses apart.
    ///
    /// - Parameter first: the number of the first of four parameters: statuses, type, code, status of the answer.
    static func match(_ table: String, from first: Int) -> String {
        """
        (cardinality($\(first)::text[]) = 0
                OR CASE WHEN \(table).error_code = 'conflict' THEN 'conflict' ELSE 'failed' END = ANY ($\(first)))
                AND ($\(first + 1)::text IS NULL OR \(table).entity_type = $\(first + 1))
                AND ($\(first + 2)::text IS NULL OR \(table).error_code = $\(first + 2))
                AND ($\(first + 3)::int2 IS NULL OR \(table).error_status = $\(first + 3))
        """
    }
}

extension Parameters {
    /// The parameters of ``StuckRows/match(_:from:)``.
    mutating func add(groupsOf filter: StuckFilter) {
        add(filter.statuses.map(\.rawValue))
        add(filter.entityType)
        add(filter.errorCode)
        add(filter.responseStatus)
    }
}
