import Metrics
import Postgres

/// Counts changes of users' grants.
package struct ChannelMetrics: Sendable {
    /// The number of grants that began or ended, by `source`.
    package static let changedGrants = "sluice_channel_grants_changed_total"

    private let entity = Counter(label: changedGrants, dimensions: [("source", "entity")])
    private let `operator` = Counter(label: changedGrants, dimensions: [("source", "operator")])
    private let token = Counter(label: changedGrants, dimensions: [("source", "token")])

    package init() {}

    package func countChange(byOperator changed: Int) { `operator`.increment(by: changed) }

    func countChange(byToken changed: Int) { token.increment(by: changed) }

    /// Counts the grants that entities began or ended, from the results of committed queries.
    func count(_ queries: [Query], _ results: [Rows]) {
        let changed = zip(queries, results).reduce(0) { sum, pair in
            Self.statements.contains(pair.0.statement.name) ? sum + pair.1.affected : sum
        }
        if changed > 0 { entity.increment(by: changed) }
    }

    private static let statements = [ChannelStatements.endGrants.name, ChannelStatements.beginGrants.name]
}
