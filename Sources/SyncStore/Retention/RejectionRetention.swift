import Foundation
import Postgres
import SyncModel

/// What is kept of refused entries goes, like the records of those that were taken.
struct RejectionRetention: Retention {
    struct Row: Sendable {
        let user: UUID
        let key: UUID
        let rejectedAt: Timestamp
    }

    let organization: UUID
    let cutoffs: RetentionCutoffs

    func page(after place: RetentionPlace?, limit: Int) -> Query {
        var parameters = Parameters(of: organization)
        parameters.add(aged: place)
        parameters.add(timestamp: cutoffs.everything.microseconds)
        parameters.add(Int64(limit))
        return Query(Self.pageStatement, parameters)
    }

    func row(_ row: inout RowReader) throws -> Row {
        Row(
            user: try row.uuid("user_id"),
            key: try row.uuid("idempotency_key"),
            rejectedAt: try row.moment("rejected_at")
        )
    }

    func place(of row: Row) -> RetentionPlace { .aged(row.rejectedAt, user: row.user, id: row.key) }
    func isDue(_ row: Row) -> Bool { true }
    func user(of row: Row) -> UUID { row.user }

    func drop(_ rows: [Row], lanes: [LaneKey: LaneState], on connection: Connection) async throws -> Int {
        let keys = rows.map { UserIDRow(organization: organization, user: $0.user, id: $0.key) }
        let query = Self.keys.query(Self.deleteStatement, keys, at: cutoffs.everything)
        return try await connection.run(query).affected
    }

    private static let keys = UserIDRow.columns("idempotency_key")

    static let pageStatement = Statement(
        "retention_rejections",
        """
        SELECT r.user_id, r.idempotency_key, r.rejected_at
        FROM rejections r
        WHERE r.organization_id = $1 AND r.rejected_at >= $2
            AND (r.rejected_at, r.user_id, r.idempotency_key) > ($2, $3, $4) AND r.rejected_at < $5
        ORDER BY r.rejected_at, r.user_id, r.idempotency_key
        LIMIT $6
        """
    )

    /// An entry that came again meanwhile, and was refused again, stays. Its age is asked for in a CASE so that the row is
    /// found by its key and not by its age.
    static let deleteStatement = Statement(
        "retention_delete_rejections",
        """
        DELETE FROM rejections AS r
        USING \(keys.unnested(as: "k"))
        WHERE r.organization_id = k.organization_id AND r.user_id = k.user_id AND r.idempotency_key = k.idempotency_key
            AND CASE WHEN r.rejected_at < \(keys.parameter(1)) THEN true END
        """
    )
}
