import FoundationEssentials
import Postgres
import SyncModel
import SyncStore

/// Deletes the ends of grants, and of entities' stays in channels, that no device's cursor can need.
///
/// These rows have positions in the feed, but no times. Therefore retention notes the feed's position once a day. All
/// rows up to a position that was noted before the storage period have expired. When such rows are deleted, the position
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
    func step(after place: RetentionPosition?, limit: Int, on connection: Connection) async throws -> RetentionStep {
        let notes = try await notes(on: connection)
        if place == .expiredEnds {
            _ = try await connection.run(notes.next.map(note) ?? [])
            return RetentionStep()
        }
        var queries = [
            ChannelStatements.pruneStays(organization: organization, limit: Int64(limit)),
            ChannelStatements.pruneGrants(organization: organization, limit: Int64(limit)),
        ]
        if let expired = notes.expired {
            queries.insert(Self.horizonStatement(organization: organization, position: expired), at: 0)
        }
        let deleted = try await connection.run(queries).suffix(2).map(\.affected)
        let isFinished = deleted.allSatisfy { $0 < limit }
        let count = deleted.reduce(0, +)
        return RetentionStep(scanned: count, changed: count, next: isFinished ? .expiredEnds : .ends)
    }

    /// Counts the rows that a run would delete.
    func preview(on connection: Connection) async throws -> RetentionStep {
        let count = Self.countStatement(
            organization: organization,
            position: try await notes(on: connection).expired ?? 0,
            limit: Self.countedRows
        )
        let rows: Int = try await connection.run(count).read(0, 0)
        return RetentionStep(scanned: rows, changed: rows)
    }

    // MARK: - Notes

    private struct Notes {
        /// The last position that was noted before the storage period.
        let expired: Int64?
        /// The notes to store; nil if the organization has no feed.
        let next: [(at: Timestamp, position: Int64)]?
    }

    private func notes(on connection: Connection) async throws -> Notes {
        guard var row = try await connection.run(Self.notesStatement(organization: organization)).first else {
            return Notes(expired: nil, next: nil)
        }
        let position: Int64 = try row.read("last_position")
        let times: [Int64] = try row.read("times")
        let noted = zip(times, try row.read("feed_positions", as: [Int64].self)).map {
            (at: Timestamp(microseconds: $0), position: $1)
        }
        let (old, recent) = (noted.filter { $0.at < cutoffs.everything }, noted.filter { $0.at >= cutoffs.everything })
        return Notes(
            expired: old.map(\.position).max(),
            // a time in the future was noted while a clock was wrong
            next: recent.filter { $0.at < cutoffs.now } + [(cutoffs.now, position)]
        )
    }

    private func note(_ notes: [(at: Timestamp, position: Int64)]) -> [Query] {
        [
            Self.noteStatement(
                organization: organization,
                times: notes.map(\.at.rfc3339),
                positions: notes.map(\.position)
            )
        ]
    }

    // MARK: - Statements

    static let notesStatement = Statement(
        "retention_feed_notes",
        ["organization"],
        """
        SELECT f.last_position,
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

    /// Raises the horizon to an expired position, if there are ends up to this position.
    static let horizonStatement = Statement(
        "retention_raise_horizon_for_channels",
        ["organization", "position"],
        """
        UPDATE feeds AS f SET horizon = :position
        WHERE f.organization_id = :organization AND f.horizon < :position AND (
            EXISTS (SELECT FROM ended_stays s WHERE s.organization_id = :organization AND s.left_at + 0 <= :position)
            OR EXISTS (SELECT FROM channel_grants g WHERE g.organization_id = :organization AND g.until <= :position))
        """
    )

    /// Counts ends up to a position or the horizon, each kind up to a limit.
    static let countStatement = Statement(
        "retention_count_ends",
        ["organization", "position", "limit"],
        """
        SELECT (SELECT count(*) FROM (
                SELECT FROM ended_stays s
                WHERE s.organization_id = :organization AND s.left_at + 0 <= greatest(f.horizon, :position) LIMIT :limit) x)
            + (SELECT count(*) FROM (
                SELECT FROM channel_grants g
                WHERE g.organization_id = :organization AND g.until <= greatest(f.horizon, :position)
                    AND NOT EXISTS (
                        SELECT FROM channel_grants z
                        WHERE z.organization_id = :organization AND z.user_id = g.user_id AND z.channel = g.channel
                            AND (z.until IS NULL OR z.until > greatest(f.horizon, :position)))
                LIMIT :limit) x) AS count
        FROM feeds f
        WHERE f.organization_id = :organization
        """
    )

    static let statements = [notesStatement, noteStatement, horizonStatement, countStatement]
}
