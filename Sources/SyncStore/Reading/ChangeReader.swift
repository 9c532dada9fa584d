public import Foundation
import JSONText
import Postgres
public import SyncModel

/// Reads an organization's feed: the latest state of each entity, in commit order, nothing ever skipped.
///
/// The feed's counter row is locked from its raise to the commit, and one statement reads the counter and the entities
/// in one snapshot: whatever is at or below the counter that a reader sees is committed, so a page never passes over a
/// writer that is still under way.
public struct ChangeReader: Sendable {
    /// Bytes of documents on one page; a page holds one change at least.
    static let pageBytes: Int64 = 8_388_608
    /// Entities that one page looks at for each that it may hold: bounds the work when a filter lets little through.
    static let scanFactor = 10

    let pool: Pool
    let catalog: Catalog
    let wakeUps: WakeUps
    let failure: StoreFailure

    /// A page of changes: `{"changes":[…],"next","up_to_date"}`.
    ///
    /// - Parameters:
    ///   - since: `next` of the page before, or a push's `feed`; nil starts at the beginning.
    ///   - limit: 1 to 1,000.
    ///   - entityTypes: empty for all.
    ///   - wait: how long to wait for something to show, while there is nothing.
    /// - Throws: `invalid_request` for a cursor that is not ours or was made with another filter; `cursor_expired`.
    public func page(
        since: String?,
        limit: Int,
        entityTypes: [String],
        organization: Organization,
        user: UUID,
        wait: Duration = .zero
    ) async throws(Problem) -> [UInt8] {
        let filter = FeedCursor.filter(entityTypes)
        let cursor = try Self.cursor(since, filter)
        let request = Request(organization: organization.id, user: user, entityTypes: entityTypes, limit: limit)
        let first = try await page(request, after: cursor, filter)
        guard wait > .zero, first.isEmpty else { return try await json(first, organization.id) }
        let deadline = ContinuousClock.now + wait
        return try await wakeUps.watching(feed: (request.interest, first.next.position)) { watch throws(Problem) in
            var page = first
            repeat {
                // what was passed over need not be looked at again
                page = try await self.page(request, after: page.next, filter)
                guard page.isEmpty, .now < deadline else { break }
                if page.isUpToDate { _ = await watch.news(within: deadline - .now) }
            } while !Task.isCancelled
            return try await json(page, organization.id)
        }
    }

    private struct Request {
        let organization: UUID
        let user: UUID
        let entityTypes: [String]
        let limit: Int

        var interest: FeedInterest {
            FeedInterest(organization: organization, user: user, entityTypes: Set(entityTypes))
        }
    }

    private func json(_ page: Page, _ organization: UUID) async throws(Problem) -> [UInt8] {
        do {
            return try await catalog.opening(organization) { try page.json($0) }
        } catch {
            throw failure.problem(error, doing: "read changes")
        }
    }

    private func page(
        _ request: Request,
        after cursor: FeedCursor?,
        _ filter: UInt64
    ) async throws(Problem) -> Page {
        let (limit, entityTypes) = (request.limit, request.entityTypes)
        let scan = min(limit * Self.scanFactor, 10_000)
        var parameters = Parameters()
        parameters.add(request.organization)
        parameters.add(cursor?.position ?? 0)
        parameters.add(entityTypes)
        parameters.add(request.user)
        parameters.add(Int64(scan))
        parameters.add(Int64(limit))
        parameters.add(Self.pageBytes)
        do {
            let rows = try await pool.run([Query(Self.statement, parameters)])[0]
            return try Page(rows, cursor: cursor, filter: filter, entityTypes: entityTypes)
        } catch {
            throw failure.problem(error, doing: "read changes")
        }
    }

    private static func cursor(_ text: String?, _ filter: UInt64) throws(Problem) -> FeedCursor? {
        guard let text else { return nil }
        guard let cursor = FeedCursor(text) else {
            throw Problem(.invalidRequest, pointer: "", rule: "parameter_invalid", "since is not a cursor of this feed")
        }
        guard cursor.filter == filter else {
            let detail = "since was made with another entity_type filter; start over without since"
            throw Problem(.invalidRequest, pointer: "", rule: "parameter_invalid", detail)
        }
        return cursor
    }

    /// The first columns describe the feed and how far the scan went; a row without an entity says that nothing passed.
    static let statement = Statement(
        "changes_page",
        """
        SELECT f.epoch, f.horizon, f.last_position, s.scanned, s.scanned_to, e.feed_position, e.entity_type, e.id,
            e.id_is_integer, CASE WHEN e.owner_id = $4 THEN e.client_id END, e.version, e.is_deleted, e.document,
            e.updated_at, e.updated_by, e.is_cut, w.looked_at
        FROM feeds f
        -- more than a page holds where something may not pass
        CROSS JOIN LATERAL (
            SELECT CASE WHEN cardinality($3::text[]) > 0 OR EXISTS (
                SELECT FROM entity_types t WHERE t.organization_id = $1 AND t.visibility = 'user')
            THEN $5::int8 ELSE $6::int8 END AS looked_at
        ) w
        CROSS JOIN LATERAL (
            SELECT count(*) AS scanned, max(x.feed_position) AS scanned_to
            FROM (
                SELECT y.feed_position FROM entities y
                WHERE y.organization_id = $1 AND y.feed_position > $2
                ORDER BY y.feed_position LIMIT w.looked_at
            ) x
        ) s
        LEFT JOIN LATERAL (
            SELECT q.*, q.bytes_to > $7 OR q.place = $6 AS is_cut
            FROM (
                SELECT p.*, row_number() OVER w AS place, sum(p.bytes) OVER w AS bytes_to
                FROM (
                    SELECT z.*, coalesce(octet_length(z.document::text), 0) AS bytes
                    FROM entities z
                    WHERE z.organization_id = $1 AND z.feed_position > $2 AND z.feed_position <= s.scanned_to
                        AND (cardinality($3::text[]) = 0 OR z.entity_type = ANY ($3))
                        AND (z.owner_id = $4 OR z.entity_type <> ALL (ARRAY(
                                SELECT t.name FROM entity_types t
                                WHERE t.organization_id = $1 AND t.visibility = 'user')))
                    ORDER BY z.feed_position
                    LIMIT $6
                ) p
                WINDOW w AS (ORDER BY p.feed_position)
            ) q
            WHERE q.bytes_to - q.bytes <= $7
        ) e ON true
        WHERE f.organization_id = $1
        ORDER BY e.feed_position
        """
    )
}

/// What one page says.
private struct Page {
    private let rows: Rows
    private let hasEntities: Bool
    let next: FeedCursor
    let isUpToDate: Bool
    /// Whether there is nothing to show.
    var isEmpty: Bool { !hasEntities }

    init(
        _ rows: Rows,
        cursor: FeedCursor?,
        filter: UInt64,
        entityTypes: [String]
    ) throws {
        guard rows.count > 0 else { throw Problem(.organizationUnknown, "the organization has no feed") }
        let epoch = try rows.int64(0, 0)
        let last = try rows.int64(0, 2)
        if let cursor, try cursor.epoch != epoch || rows.int64(0, 1) > cursor.reach || cursor.position > last {
            throw Self.expired(entityTypes)
        }
        self.rows = rows
        hasEntities = !rows.isNull(0, 5)
        let isCut = hasEntities ? try rows.bool(rows.count - 1, 15) : false
        let scanned = try rows.int64(0, 3)
        // where the scan ended: at the last change shown if the page is full, else where it stopped looking, else at the
        // feed's end
        let position: Int64
        if isCut {
            position = try rows.int64(rows.count - 1, 5)
        } else if try scanned >= rows.int64(0, 16) {
            position = try rows.int64(0, 4)
        } else {
            position = last
        }
        let started = cursor?.head ?? last
        let isFirstPull = cursor.map { $0.position < $0.head } ?? true
        next = FeedCursor(
            epoch: epoch,
            position: position,
            head: isFirstPull ? max(started, position) : position,
            filter: filter
        )
        isUpToDate = position >= last
    }

    private static func expired(_ entityTypes: [String]) -> Problem {
        var problem = Problem(
            .cursorExpired,
            "deletions since this cursor are no longer known; start over from snapshot"
        )
        let query = entityTypes.isEmpty ? "" : "?entity_type=" + entityTypes.joined(separator: ",")
        problem.snapshot = "/v1/changes" + query
        return problem
    }

    func json(_ seal: Seal) throws -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.name("changes")
        writer.beginArray()
        if hasEntities {
            for row in 0..<rows.count { try writeChange(row, seal, to: &writer) }
        }
        writer.endArray()
        writer.member("next", next.text)
        writer.member("up_to_date", isUpToDate)
        writer.endObject()
        return writer.bytes
    }

    private func writeChange(_ row: Int, _ seal: Seal, to writer: inout JSONWriter) throws {
        let type = try rows.string(row, 6)
        let id = try rows.serverID(row, 7)
        let document = try seal.open(
            json: rows.optionalBytes(row, 12),
            as: .document(type: type, id: id?.text ?? "")
        )
        writer.beginObject()
        writer.member("entity_type", type)
        writer.member("id", id)
        if let clientID = try rows.optionalUUID(row, 9) { writer.member("client_id", clientID) }
        writer.member("version", try rows.int64(row, 10))
        writer.member("deleted", try rows.bool(row, 11))
        writer.member("document", raw: document)
        writer.member("updated_at", Timestamp(microseconds: try rows.timestamp(row, 13)).rfc3339)
        writer.member("updated_by", try rows.uuid(row, 14))
        writer.endObject()
    }
}
