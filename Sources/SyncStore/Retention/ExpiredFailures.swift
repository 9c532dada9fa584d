import Foundation
import Postgres
import SyncModel

/// Mutations that failed or are in conflict, by the age of their acceptance: those that nobody has touched for so long
/// are discarded, lane by lane, in the way in which a person discards them. So their user is told, a lane that waited for
/// a person goes on, and the client id is free for another create.
struct ExpiredFailures {
    /// One that is to be discarded.
    struct Page {
        /// By lane, what is old; in the order of their lanes.
        var lanes: [(user: UUID, ids: [UUID])] = []
        var looked = 0
        var next: RetentionPlace?
    }

    let organization: UUID
    let cutoffs: RetentionCutoffs

    func page(after place: RetentionPlace?, limit: Int, pool: Pool) async throws -> Page {
        var parameters = Parameters(of: organization)
        parameters.add(aged: place)
        parameters.add(timestamp: cutoffs.everything.microseconds)
        parameters.add(Int64(limit))
        let rows = try await pool.transaction { [parameters] connection in
            try await connection.run([RetentionStore.opening, Query(Self.pageStatement, parameters)])[1]
        }
        var page = Page(looked: rows.count)
        var ids: [UUID: [UUID]] = [:]
        for var row in rows {
            let (user, id) = (try row.uuid("user_id"), try row.uuid("id"))
            // a full page ends at its last row
            let acceptedAt = try row.moment("accepted_at")
            if rows.count == limit { page.next = .aged(acceptedAt, user: user, id: id) }
            if try row.bool("is_due") { ids[user, default: []].append(id) }
        }
        page.lanes = ids.sorted { $0.key < $1.key }.map { (user: $0.key, ids: $0.value) }
        return page
    }

    static let pageStatement = Statement(
        "retention_troubled_mutations",
        """
        SELECT m.user_id, m.id, m.accepted_at,
            m.status IN (\(MutationStatus.list(MutationStatus.forAPerson))) AND m.changed_at < $5 AS is_due
        FROM mutations m
        WHERE m.organization_id = $1 AND m.error IS NOT NULL AND m.synced_at IS NULL AND m.accepted_at >= $2
            AND (m.accepted_at, m.user_id, m.id) > ($2, $3, $4) AND m.accepted_at < $5
        ORDER BY m.accepted_at, m.user_id, m.id
        LIMIT $6
        """
    )

    /// Those of some mutations of a lane that are still as old.
    static let stillOldStatement = Statement(
        "retention_still_old",
        """
        SELECT m.id
        FROM unnest($3::uuid[]) AS k (id)
        CROSS JOIN LATERAL (
            SELECT x.id, x.changed_at FROM mutations x
            WHERE x.organization_id = $1 AND x.user_id = $2 AND x.id = k.id
            OFFSET 0
        ) m
        WHERE m.changed_at < $4
        """
    )

    /// Discarded ones lose their payload at once, and say why they are; what they had failed by stays in their error.
    static let forgetStatement = Statement(
        "retention_forget",
        """
        UPDATE mutations AS m
        SET payload = NULL, headers = NULL, sent_payload = NULL,
            last_error = 'discarded by retention, for nobody settled it in time'
        FROM \(FinalMutation.keys.unnested(as: "k"))
        WHERE m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.id = k.id
        """
    )
}

extension Settlement {
    /// Discards failed and conflicting mutations of a lane that were last changed before a moment, those on which
    /// something depends that stays excepted (product rule 15).
    ///
    /// - Returns: how many were discarded.
    func expire(_ ids: [UUID], before cutoff: Timestamp, _ lane: LaneKey) async throws(Problem) -> Int {
        try await discardUnneeded(ids, lane) { reader, found in
            let old = try await reader.idsOlder(than: cutoff, among: found.map(\.record.id))
            return found.filter { MutationStatus.forAPerson.contains($0.record.status) && old.contains($0.record.id) }
        } forgetting: { ids in
            let rows = ids.map { UserIDRow(organization: lane.organization, user: lane.user, id: $0) }
            return [FinalMutation.keys.query(ExpiredFailures.forgetStatement, rows)]
        }
    }
}

extension SettleReader {
    /// Those of some mutations that were last changed before a moment.
    fileprivate func idsOlder(than cutoff: Timestamp, among ids: [UUID]) async throws -> Set<UUID> {
        var parameters = Parameters(of: lane, ids)
        parameters.add(timestamp: cutoff.microseconds)
        let rows = try await connection.run(Query(ExpiredFailures.stillOldStatement, parameters))
        return Set(try rows.read { try $0.uuid("id") })
    }
}
