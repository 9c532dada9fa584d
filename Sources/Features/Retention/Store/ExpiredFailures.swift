import FoundationEssentials
import Postgres
import SyncModel
import SyncStore

/// Finds failed and conflicting mutations in the order in which they were accepted.
///
/// If a mutation was not changed for longer than the limit, it is discarded as if its user had discarded it. As a
/// result, the user receives the outcome, a lane that waited for a decision continues, and another create can use the
/// client id.
struct ExpiredFailures {
    struct Page {
        /// The mutations that are due, for each user with such mutations, in the order of the users' ids.
        var lanes: [(user: UUID, ids: [UUID])] = []
        var scanned = 0
        var next: RetentionPosition?
    }

    let organization: UUID
    let cutoffs: RetentionCutoffs

    func page(after place: RetentionPosition?, limit: Int, pool: Pool) async throws -> Page {
        let query = Self.rows.page(organization, after: place, before: cutoffs.everything, limit: limit)
        let rows = try await pool.transaction { connection in
            try await connection.run([RetentionStore.opening, query])[1].read(AgedRow.init)
        }
        // a full page ends at its last row
        var page = Page(scanned: rows.count, next: rows.count == limit ? rows.last?.place : nil)
        let ids = Dictionary(grouping: rows.filter(\.isDue), by: \.user).mapValues { $0.map(\.id) }
        page.lanes = ids.sorted { $0.key < $1.key }.map { (user: $0.key, ids: $0.value) }
        return page
    }

    static let rows = AgedRows(
        "retention_troubled_mutations",
        of: "mutations",
        by: "accepted_at",
        where: "t.error IS NOT NULL AND t.synced_at IS NULL AND",
        isDue: "t.status IN (\(MutationStatus.list(MutationStatus.forAPerson))) AND t.changed_at < :cutoff"
    )

    /// Returns the given mutations of a lane that are still old enough.
    static let stillOldStatement = Statement(
        "retention_still_old",
        ["organization", "user", "ids", "cutoff"],
        """
        SELECT m.id
        FROM unnest(:ids::uuid[]) AS k (id)
        CROSS JOIN LATERAL (
            SELECT x.id, x.changed_at FROM mutations x
            WHERE x.organization_id = :organization AND x.user_id = :user AND x.id = k.id
            OFFSET 0
        ) m
        WHERE m.changed_at < :cutoff
        """
    )

    /// Deletes the payload of discarded mutations immediately, and records the reason for the discard. The stored error
    /// still contains the earlier failure.
    static let forgetStatement = Statement(
        "retention_forget",
        AgedRetention.mutations.inputs,
        """
        UPDATE mutations AS m
        SET payload = NULL, headers = NULL, sent_payload = NULL,
            last_error = 'discarded by retention, because it was not settled in time'
        FROM \(AgedRetention.mutations.unnested(as: "k"))
        WHERE m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.id = k.id
        """
    )

    static let statements = [rows.statement, stillOldStatement, forgetStatement]
}

extension Settlement {
    /// Discards mutations of a lane if they are still failed or in conflict, and were last changed before `cutoff`. A
    /// mutation is not discarded if any of its dependants must be kept (product rule 15).
    ///
    /// - Returns: the number of discarded mutations.
    func expire(_ ids: [UUID], before cutoff: Timestamp, _ lane: LaneKey) async throws(Problem) -> Int {
        try await discardUnneeded(ids, lane) { reader, found in
            let old = try await reader.idsOlder(than: cutoff, among: found.map(\.record.id))
            return found.filter { MutationStatus.forAPerson.contains($0.record.status) && old.contains($0.record.id) }
        } forgetting: { ids in
            let rows = ids.map { UserIDRow(organization: lane.organization, user: lane.user, id: $0) }
            return [AgedRetention.mutations.query(ExpiredFailures.forgetStatement, rows)]
        }
    }
}

extension SettleReader {
    /// Returns the ids of the mutations in `ids` that were last changed before `cutoff`.
    fileprivate func idsOlder(than cutoff: Timestamp, among ids: [UUID]) async throws -> Set<UUID> {
        let old = ExpiredFailures.stillOldStatement(
            organization: lane.organization,
            user: lane.user,
            ids: ids,
            cutoff: cutoff
        )
        let rows = try await connection.run(old)
        return Set(try rows.read { try $0.read("id", as: UUID.self) })
    }
}
