import Postgres
import SyncModel

/// Reads an organization's feed: the latest state of each entity, in commit order.
///
/// There are no gaps. A transaction that writes entities raises the counter in the feed's row, and keeps this row
/// locked until its commit. A page is read by one statement, with the counter and the entities in one snapshot.
/// Therefore every change up to the counter in this snapshot is committed, and a page never skips a change that is not
/// committed yet.
struct FeedReader: Sendable {
    /// The maximum bytes of documents on one page. A page has at least one change.
    static let pageBytes: Int64 = 2_097_152
    /// The number of entities that a page reads for each entity that it can contain.
    ///
    /// This factor limits the work if few entities match the filter.
    static let scanFactor = 10

    /// The result of one read of the feed.
    enum Reading {
        case page(FeedPage)
        /// The cursor is of another epoch, or deletions after it are no longer stored.
        case expired(isOfThisEpoch: Bool)
    }

    let pool: Pool
    let notifier: ChangeNotifier
    let channels: ChannelFeedReader
    let failure: StoreFailure

    /// Reads the feed once, and runs `others` in the same round trip.
    func read(
        _ request: FeedRequest,
        after cursor: FeedCursor?,
        excluding others: [Query] = []
    ) async throws(Problem) -> (reading: Reading, others: ArraySlice<Rows>) {
        let scan = min(request.limit * Self.scanFactor, 10_000)
        do {
            if request.channels != nil || channels.hasChannels(request.organization) {
                return try await channels.read(request, after: cursor, others)
            }
            let results = try await pool.run(
                [
                    Self.statement(
                        organization: request.organization,
                        after: cursor?.position ?? 0,
                        entity_types: request.entityTypes,
                        owner: request.user,
                        scan: Int64(scan),
                        limit: Int64(request.limit),
                        bytes: Self.pageBytes
                    )
                ] + others
            )
            let reading = try FeedPage.reading(results[0], after: cursor, request)
            if case .page(let page) = reading, page.hasChannels {
                channels.noteChannels(request.organization)
                return try await channels.read(request, after: cursor, others)
            }
            return (reading, results.dropFirst())
        } catch {
            throw failure.problem(error, doing: "read changes")
        }
    }

    /// Reads the feed until a page has changes or the time limit has passed.
    ///
    /// - Parameters:
    ///   - room: the reservation of memory for each read. The returned page keeps it.
    ///   - find: reads the page after a cursor.
    /// - Throws: the errors of `find`. For the first read, also the errors of acquiring memory.
    nonisolated(nonsending) func view(
        after cursor: FeedCursor?,
        of interest: FeedInterest,
        wait: Duration,
        room: PagePermit,
        _ find: nonisolated(nonsending) (FeedCursor?) async throws(Problem) -> FeedPage
    ) async throws(Problem) -> FeedPage {
        try await room.acquire()
        let first = try await find(cursor)
        guard wait > .zero, first.changes.isEmpty else { return first }
        let deadline = ContinuousClock.now + wait
        return try await notifier.watching(feed: (interest, first.next.position)) { watch throws(Problem) in
            var page = first
            repeat {
                do throws(Problem) { try await room.acquire() } catch { break }
                // continues at the page's end, so that skipped entities are not read again
                page = try await find(page.next)
                guard page.changes.isEmpty, .now < deadline else { break }
                guard page.isUpToDate else { continue }
                room.release()
                _ = await watch.changes(within: deadline - .now)
            } while !Task.isCancelled
            return page
        }
    }

    /// The problem for a caller with an expired cursor.
    static func expired(snapshot: String) -> Problem {
        var problem = Problem(
            .cursorExpired,
            "changes since this cursor are no longer available; start over from the path in `snapshot`"
        )
        problem.snapshot = snapshot
        return problem
    }

    private static let past = RowBytes.stop(
        when: "q.bytes_to > :bytes",
        by: "q.feed_position",
        includesExceeding: true
    )

    private static let scanned = FeedOrder.entities(
        "e.feed_position",
        where: "e.organization_id = :organization AND e.feed_position > :after",
        limit: "w.looked_at"
    )

    /// SQL for the entities of an organization that has no channels. Organizations with channels have another
    /// statement.
    private static let shown = FeedOrder.entities(
        "e.*",
        where: """
            e.organization_id = :organization AND e.feed_position > :after
                AND e.feed_position <= s.scanned_to AND NOT w.has_channels
                AND (cardinality(:entity_types::text[]) = 0 OR e.entity_type = ANY (:entity_types))
                AND (e.owner_id = :owner OR e.entity_type <> ALL (ARRAY(
                        SELECT t.name FROM entity_types t
                        WHERE t.organization_id = :organization AND t.visibility = 'user')))
            """,
        limit: ":limit"
    )

    /// Reads the feed. The first columns describe the feed, and the place at which the scan ended.
    ///
    /// If no entity matched the filter, the result is a row without an entity.
    static let statement = Statement(
        "changes_page",
        ["organization", "after", "entity_types", "owner", "scan", "limit", "bytes"],
        """
        SELECT f.epoch, f.horizon, f.last_position, s.scanned, s.scanned_to, w.looked_at, w.has_channels, e.feed_position,
            e.is_cut,
            e.entity_type, e.id AS server_id, e.id_is_integer AS server_id_is_integer,
            CASE WHEN e.owner_id = :owner THEN e.client_id END AS client_id, e.version, e.is_deleted, e.document,
            e.updated_at, e.updated_by, e.etag
        FROM feeds f
        -- if the filter or the visibility can exclude entities, more entities are read than a page contains
        CROSS JOIN LATERAL (
            SELECT CASE WHEN cardinality(:entity_types::text[]) > 0 OR EXISTS (
                SELECT FROM entity_types t WHERE t.organization_id = :organization AND t.visibility = 'user')
            THEN :scan::int8 ELSE :limit::int8 END AS looked_at, EXISTS (
                SELECT FROM entity_types t WHERE t.organization_id = :organization AND t.visibility = 'channels')
                AS has_channels
        ) w
        CROSS JOIN LATERAL (
            SELECT count(*) AS scanned, max(x.feed_position) AS scanned_to
            FROM \(scanned) x
        ) s
        LEFT JOIN LATERAL (
            SELECT r.*, r.bytes_to > :bytes OR r.place = :limit AS is_cut
            FROM (
                SELECT q.*, \(past) AS past
                FROM (
                    SELECT p.*, row_number() OVER w AS place, sum(\(RowBytes.of("p.document"))) OVER w AS bytes_to
                    FROM \(shown) p
                    WINDOW w AS (ORDER BY p.feed_position ROWS UNBOUNDED PRECEDING)
                ) q
            ) r
            WHERE r.past < 1
        ) e ON true
        WHERE f.organization_id = :organization
        ORDER BY e.feed_position
        """
    )
}
