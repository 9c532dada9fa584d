import FoundationEssentials
import Postgres
import SyncModel
import SyncStore

/// Deletes the ends of grants, and of entities' stays in channels, that no device's cursor can need.
///
/// These rows have positions in the feed, but no times. Therefore retention notes the feed's position once a day. All
/// rows up to a position that was noted before the storage period have expired. When any of them is deleted, the position
/// becomes the feed's horizon. A client whose cursor is before the horizon must start again, as after the deletion of a
/// tombstone.
struct ChannelRetention {
    /// The time between two notes, in seconds.
    static let interval = 86_400.0
    /// The maximum number of rows of each kind that a preview counts.
    private static let countedRows = 100_000

    let organization: UUID
    let cutoffs: RetentionCutoffs

    /// Runs a step: deletes expired rows, or, if there are no more of them, notes the feed's position.
    func step(
        _ notes: Notes,
        after place: RetentionPosition?,
        limit: Int,
        on connection: Connection
    ) async throws -> RetentionStep {
        if place == .expiredEnds {
            if let next = notes.next { _ = try await connection.run(note(next)) }
            return RetentionStep()
        }
        let deletions = [Self.deleteStaysStatement, Self.deleteGrantsStatement].map {
            $0(organization: organization, position: notes.expired, limit: limit)
        }
        let count = Self.countStatement(organization: organization, position: notes.expired, limit: 1)
        guard try await connection.run(count).read(0, 0, as: Int64.self) > 0 else {
            return RetentionStep(next: .expiredEnds)
        }
        // grants are locked after the feed, as in pushes and joins
        let raise = TombstoneRetention.horizonStatement(organization: organization, position: notes.expired)
        let deleted = try await connection.run([raise] + deletions).dropFirst().map(\.affected)
        let isFinished = deleted.allSatisfy { $0 < limit }
        let total = deleted.reduce(0, +)
        return RetentionStep(scanned: total, changed: total, next: isFinished ? .expiredEnds : .ends)
    }

    /// Counts the rows that a run would delete.
    func preview(_ notes: Notes, on connection: Connection) async throws -> RetentionStep {
        let count = Self.countStatement(
            organization: organization,
            position: notes.expired,
            limit: Self.countedRows
        )
        let rows: Int = try await connection.run(count).read(0, 0)
        return RetentionStep(scanned: rows, changed: rows)
    }

    // MARK: - Notes

    struct Notes {
        /// The position up to which ends have expired: the last position that was noted before the storage period, or
        /// the feed's horizon.
        let expired: Int64
        /// The notes to store; nil if the organization has no feed.
        fileprivate let next: [(at: Timestamp, position: Int64)]?
    }

    /// The query whose rows ``notes(in:)`` reads.
    var readNotes: Query { Self.notesStatement(organization: organization) }

    func notes(in rows: Rows) throws -> Notes {
        guard var row = rows.first else { return Notes(expired: 0, next: nil) }
        let (position, horizon): (Int64, Int64) = (try row.read("last_position"), try row.read("horizon"))
        let times: [Int64] = try row.read("times")
        let noted = zip(times, try row.read("feed_positions", as: [Int64].self)).map {
            (at: Timestamp(microseconds: $0), position: $1)
        }
        let (old, recent) = (noted.filter { $0.at < cutoffs.everything }, noted.filter { $0.at >= cutoffs.everything })
        return Notes(
            expired: max(horizon, old.map(\.position).max() ?? 0),
            // a time in the future was noted while a clock was wrong
            next: recent.filter { $0.at < cutoffs.now } + [(cutoffs.now, position)]
        )
    }

    private func note(_ notes: [(at: Timestamp, position: Int64)]) -> Query {
        Self.noteStatement(
            organization: organization,
            times: notes.map(\.at.rfc3339),
            positions: notes.map(\.position)
        )
    }

    // MARK: - Statements

    static let notesStatement = Statement(
        "retention_feed_notes",
        ["organization"],
        """
        SELECT f.last_position, f.horizon,
            ARRAY(SELECT (extract(epoch FROM t) * 1000000)::int8 FROM unnest(p.feed_noted_at) WITH ORDINALITY AS x (t, place)
                ORDER BY x.place) AS times,
            coalesce(p.feed_positions, '{}') AS feed_positions
        FROM feeds f LEFT JOIN retention_places p ON p.organization_id = :organization
        WHERE f.organization_id = :organization
        """
    )

    static let noteStatement = Statement(
        "retention_note_feed",
        ["organization", "times", "positions"],
        """
        INSERT INTO retention_places AS p (organization_id, feed_noted_at, feed_positions)
        SELECT o.id, :times::text[]::timestamptz[], :positions::int8[] FROM organizations o WHERE o.id = :organization
        ON CONFLICT (organization_id) DO UPDATE
        SET feed_noted_at = excluded.feed_noted_at, feed_positions = excluded.feed_positions
        """
    )

    static let deleteStaysStatement = Statement(
        "retention_delete_stays",
        ["organization", "position", "limit"],
        """
        DELETE FROM ended_stays AS s
        USING (
            SELECT x.channel, x.left_at FROM ended_stays x
            WHERE x.organization_id = :organization AND x.left_at + 0 <= :position
            ORDER BY x.left_at + 0 LIMIT :limit
        ) k
        WHERE s.organization_id = :organization AND s.channel = k.channel AND s.left_at = k.left_at
        """
    )

    /// Deletes ended grants, if their users no longer hold the channel.
    ///
    /// If a user got a channel again, the earlier grant remains, because devices may not have processed the end of the
    /// earlier grant (`GrantHistory`).
    static let deleteGrantsStatement = Statement(
        "retention_delete_grants",
        ["organization", "position", "limit"],
        """
        DELETE FROM channel_grants AS g
        USING (
            SELECT x.user_id, x.channel, x.source, x.since FROM channel_grants x
            WHERE x.organization_id = :organization AND x.until <= :position AND \(isNotHeld)
            ORDER BY x.until LIMIT :limit
        ) k
        WHERE g.organization_id = :organization AND g.user_id = k.user_id AND g.channel = k.channel
            AND g.source = k.source AND g.since = k.since
        """
    )

    /// Counts expired ends, each kind up to a limit.
    static let countStatement = Statement(
        "retention_count_ends",
        ["organization", "position", "limit"],
        """
        SELECT (SELECT count(*) FROM (
                SELECT FROM ended_stays x
                WHERE x.organization_id = :organization AND x.left_at + 0 <= :position LIMIT :limit) s)
            + (SELECT count(*) FROM (
                SELECT FROM channel_grants x
                WHERE x.organization_id = :organization AND x.until <= :position AND \(isNotHeld)
                LIMIT :limit) g) AS count
        """
    )

    /// SQL for whether the user of a grant `x` held the channel neither at the position nor later.
    private static let isNotHeld = """
        NOT EXISTS (
                    SELECT FROM channel_grants z
                    WHERE z.organization_id = :organization AND z.user_id = x.user_id AND z.channel = x.channel
                        AND (z.until IS NULL OR z.until > :position))
        """

    static let statements = [
        notesStatement, noteStatement, deleteStaysStatement, deleteGrantsStatement, countStatement,
    ]
}
