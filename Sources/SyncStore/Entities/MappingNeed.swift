/// Which mappings idempotency records may need.
///
/// A repetition may name an entity by its server id where the first try had the client id, or the other way round.
package enum MappingNeed {
    /// Mutations of a user that are examined. Where so many old ones are open, all younger ones count as records.
    private static let examined = 16

    /// Seconds for which a recorded use may be too early.
    ///
    /// Uses are recorded once a day, and gateways' clocks may differ.
    private static let tolerance = Int(MappingUse.precision) + 3_600

    /// SQL about a mapping `i`: whether all records of its user are later than its use.
    ///
    /// That is, every record was accepted after the mapping's last use.
    ///
    /// A user's mutations have positions in the order of acceptance, so the first ones show how old the oldest record
    /// is. A join moves mutations behind others and records a use of their mappings (``UserMoves/mergeMappings``).
    /// ``NeededIDs`` covers open mutations. Every position is positive; the index by position is only used where a
    /// condition names it.
    package static let isOver = """
        coalesce(i.last_used_at, i.resolved_at, i.created_at) + interval '\(tolerance) seconds' < (
                    SELECT CASE
                        WHEN count(f.synced_at) > 0 THEN min(f.accepted_at) FILTER (WHERE f.synced_at IS NOT NULL)
                        WHEN count(*) = \(examined) THEN max(f.accepted_at)
                        ELSE 'infinity' END
                    FROM (
                        SELECT x.accepted_at, x.synced_at FROM mutations x
                        WHERE x.organization_id = i.organization_id AND x.user_id = i.user_id AND x.position >= 0
                        ORDER BY x.position LIMIT \(examined)
                    ) f)
        """
}
