import Postgres
import SyncModel

/// A request of a mutation's history.
struct AttemptRow {
    /// Requests that are stored of a mutation, the last ones.
    static let kept = 20

    private let lane: LaneKey
    private let result: LaneOutcome
    private let note: AttemptRecord

    /// Nil where there is no attempt to record, as usual.
    init?(_ lane: LaneKey, _ result: LaneOutcome) {
        guard let note = result.outcome.attempt else { return nil }
        self.lane = lane
        self.result = result
        self.note = note
    }

    static let columns = Columns<AttemptRow>(
        .lane(\.lane),
        .uuid("id", \.result.mutation.id),
        .int4("revision", \.note.revision),
        .int2("number", \.note.number),
        .moment("sent_at", \.note.sentAt),
        .int4("duration_ms", \.note.milliseconds),
        .int2("status", \.note.status),
        .text("error", \.note.error),
        .choice("outcome") { $0.note.result }
    )

    /// Writes attempts; executed before the outcome is written.
    ///
    /// If the time of sending is not recorded, the time of the mark as in flight is used. The rows of a mutation are a
    /// ring, so that nothing is ever deleted for a new one.
    static let write = Statement(
        "lane_write_attempts",
        columns.inputs,
        """
        INSERT INTO attempts AS a (
            organization_id, user_id, mutation_id, slot, ordinal, revision, number, sent_at, duration_ms, status, error,
            outcome)
        SELECT k.organization_id, k.user_id, k.id, (l.ordinal % \(kept))::int2, l.ordinal, k.revision, k.number,
            coalesce(k.sent_at, m.changed_at), k.duration_ms, k.status, k.error, k.outcome
        FROM \(columns.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT x.changed_at FROM mutations x
            WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.id = k.id
                AND x.status = 'in_flight'
            OFFSET 0
        ) m
        CROSS JOIN LATERAL (
            SELECT coalesce(max(x.ordinal), 0) + 1 AS ordinal FROM attempts x
            WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.mutation_id = k.id
        ) l
        ON CONFLICT (organization_id, user_id, mutation_id, slot) DO UPDATE
        SET ordinal = excluded.ordinal, revision = excluded.revision, number = excluded.number,
            sent_at = excluded.sent_at, duration_ms = excluded.duration_ms, status = excluded.status,
            error = excluded.error, outcome = excluded.outcome
        """
    )
}
