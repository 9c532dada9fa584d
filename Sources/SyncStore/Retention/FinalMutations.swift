import Foundation
import Postgres
import SyncModel

/// A final mutation as retention sees it.
struct FinalMutation: Sendable {
    let user: UUID
    let id: UUID
    let syncedAt: Timestamp
    let hasPayload: Bool

    init(_ row: inout RowReader) throws {
        user = try row.uuid("user_id")
        id = try row.uuid("id")
        syncedAt = try row.moment("synced_at")
        hasPayload = try row.bool("has_payload")
    }

    /// What mutations are found by.
    static let keys = UserIDRow.columns("id")

    static func query(_ statement: Statement, _ rows: [FinalMutation], of organization: UUID) -> Query {
        keys.query(statement, rows.map { UserIDRow(organization: organization, user: $0.user, id: $0.id) })
    }

    var place: RetentionPlace { .aged(syncedAt, user: user, id: id) }

    /// A page of final mutations by age; rows of the same moment by their keys.
    static func page(
        _ organization: UUID,
        after place: RetentionPlace?,
        before cutoff: Timestamp,
        limit: Int
    ) -> Query {
        var parameters = Parameters(of: organization)
        parameters.add(aged: place)
        parameters.add(timestamp: cutoff.microseconds)
        parameters.add(Int64(limit))
        return Query(pageStatement, parameters)
    }

    static let pageStatement = Statement(
        "retention_final_mutations",
        """
        SELECT m.user_id, m.id, m.synced_at,
            m.payload IS NOT NULL OR m.headers IS NOT NULL OR m.sent_payload IS NOT NULL AS has_payload
        FROM mutations m
        WHERE m.organization_id = $1 AND m.synced_at >= $2 AND (m.synced_at, m.user_id, m.id) > ($2, $3, $4)
            AND m.synced_at < $5
        ORDER BY m.synced_at, m.user_id, m.id
        LIMIT $6
        """
    )
}

extension Parameters {
    /// Age, user and id behind which a page begins.
    mutating func add(aged place: RetentionPlace?) {
        guard case .aged(let moment, let user, let id) = place else {
            add(timestamp: Timestamp.longAgo.microseconds)
            add(UUID.least)
            add(UUID.least)
            return
        }
        add(timestamp: moment.microseconds)
        add(user)
        add(id)
    }
}

/// Final mutations lose what they sent, and shrink to idempotency records: key, fingerprint, outcome.
struct PayloadRetention: Retention {
    let organization: UUID
    let cutoffs: RetentionCutoffs

    func page(after place: RetentionPlace?, limit: Int) -> Query {
        FinalMutation.page(organization, after: place, before: cutoffs.payloads, limit: limit)
    }

    func row(_ row: inout RowReader) throws -> FinalMutation { try FinalMutation(&row) }
    func place(of row: FinalMutation) -> RetentionPlace { row.place }
    /// What is older goes whole.
    func isDue(_ row: FinalMutation) -> Bool { row.hasPayload && row.syncedAt >= cutoffs.everything }
    func user(of row: FinalMutation) -> UUID { row.user }

    func drop(_ rows: [FinalMutation], lanes: [LaneKey: LaneState], on connection: Connection) async throws -> Int {
        try await connection.run(FinalMutation.query(Self.shrinkStatement, rows, of: organization)).affected
    }

    func note(_ place: RetentionPlace?) -> Query? {
        var parameters = Parameters(of: organization)
        parameters.add(aged: place ?? .aged(cutoffs.payloads, user: UUID.least, id: UUID.least))
        return Query(Self.noteStatement, parameters)
    }

    static let shrinkStatement = Statement(
        "retention_shrink",
        """
        UPDATE mutations AS m
        SET payload = NULL, headers = NULL, sent_payload = NULL
        FROM \(FinalMutation.keys.unnested(as: "k"))
        WHERE m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.id = k.id
        """
    )

    static let noteStatement = Statement(
        "retention_note_shrunk",
        """
        INSERT INTO retention_places AS p (organization_id, shrunk_until, shrunk_user, shrunk_id)
        SELECT o.id, $2, $3, $4 FROM organizations o WHERE o.id = $1
        ON CONFLICT (organization_id) DO UPDATE
        SET shrunk_until = excluded.shrunk_until, shrunk_user = excluded.shrunk_user, shrunk_id = excluded.shrunk_id
        """
    )
}

/// Idempotency records go. Their numbers stay below the device's watermark, so a repetition that comes later still is
/// refused and never executed.
struct RecordRetention: Retention {
    let organization: UUID
    let cutoffs: RetentionCutoffs

    func page(after place: RetentionPlace?, limit: Int) -> Query {
        FinalMutation.page(organization, after: place, before: cutoffs.everything, limit: limit)
    }

    func row(_ row: inout RowReader) throws -> FinalMutation { try FinalMutation(&row) }
    func place(of row: FinalMutation) -> RetentionPlace { row.place }
    func isDue(_ row: FinalMutation) -> Bool { true }
    func user(of row: FinalMutation) -> UUID { row.user }

    func drop(_ rows: [FinalMutation], lanes: [LaneKey: LaneState], on connection: Connection) async throws -> Int {
        try await connection.run(FinalMutation.query(Self.deleteStatement, rows, of: organization)).affected
    }

    /// What others still wait for stays: a lane whose worker was lost before it released all of them finds it.
    static let deleteStatement = Statement(
        "retention_delete_mutations",
        """
        DELETE FROM mutations AS m
        USING \(FinalMutation.keys.unnested(as: "k"))
        WHERE m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.id = k.id
            AND NOT EXISTS (
                SELECT FROM mutations w
                WHERE w.organization_id = k.organization_id AND w.user_id = k.user_id AND w.blocked_on = k.id)
        """
    )
}
