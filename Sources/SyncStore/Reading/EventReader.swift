import FoundationEssentials
import Postgres
package import SyncModel

/// Reads the changes of a user's mutations and id mappings.
///
/// The changes are in commit order and without gaps: every change under a lane's lock gets the lane's change position,
/// and one statement reads the lane and its changes in one snapshot. If a mutation or mapping changed several times, it
/// is returned once, in its latest state. Sending a mutation to an upstream is not a change.
package struct EventReader: Sendable {
    /// The maximum number of events on one page.
    static let pageEvents = 64
    /// The maximum bytes of responses and errors on one page, in stored form. A page has at least one event.
    ///
    /// Long values are stored in compressed form. Therefore the values themselves can be ninety times as long.
    static let pageBytes = 32_768

    let pool: Pool
    let catalog: Catalog
    let failure: StoreFailure

    package struct Event: Sendable {
        /// The mutation or mapping in its current state.
        package enum Subject: Sendable {
            case mutation(MutationRecord)
            case mapping(IDMapping)
        }

        package let subject: Subject
        /// The cursor from which a reader continues after this event.
        package let cursor: EventCursor
    }

    /// A page of events in order.
    package struct Page: Sendable {
        /// The events; empty if there were no changes.
        package let events: [Event]
        /// The cursor of the next page.
        package let next: EventCursor
        /// Whether there are further events at the time of the read.
        package let hasMore: Bool
    }

    /// Returns the cursor at which a listener starts: the listener's own cursor or, without one, the present end of the
    /// events.
    ///
    /// - Parameter lastEventID: the id of the last event that the listener has received.
    /// - Throws: `invalid_request` for an invalid cursor; `cursor_expired`.
    package func start(
        after lastEventID: String?,
        of lane: LaneKey
    ) async throws(Problem) -> EventCursor {
        var cursor: EventCursor?
        if let lastEventID {
            cursor = EventCursor(lastEventID)
            if cursor == nil {
                let detail = "Last-Event-ID is not the id of an event of this stream; omit it to start now"
                throw Problem(.invalidRequest, pointer: "", rule: "header_invalid", detail)
            }
        }
        let end = try await self.end(of: lane)
        guard var cursor else { return end }
        // cursors from earlier versions of Sluice have an epoch that is not mixed with the user
        if cursor.epoch == LaneEpoch.mixed(end.epoch, lane.user) { cursor.epoch = end.epoch }
        try check(cursor, end.epoch, head: end.place.change, feed: end.feed)
        return cursor
    }

    /// Returns the position of the newest change in the feed after a cursor.
    ///
    /// Only changes that the listener may see and has subscribed to are considered. The result is nil if there is no
    /// such change.
    package func feedChanges(after cursor: EventCursor, for interest: FeedInterest) async throws(Problem) -> Int64? {
        do {
            let rows = try await pool.run([PendingFeedChanges.query(interest.organization, after: cursor.feed)])[0]
            guard var changes = try PendingFeedChanges(rows) else { return nil }
            if changes.hasChannels {
                let (organization, user) = (interest.organization, interest.user)
                let query = PendingFeedChanges.readers(organization, after: cursor.feed, among: [user])
                try changes.add(readers: await pool.readByIndex([query])[0])
            }
            return changes.newest(for: interest)
        } catch {
            throw failure.problem(error, doing: "read a feed")
        }
    }

    /// Returns a page of events after a cursor.
    ///
    /// - Throws: `cursor_expired` if the organization's data were purged or restored after the cursor was made.
    package func page(after cursor: EventCursor, of lane: LaneKey) async throws(Problem) -> Page {
        let keys = try await keys(after: cursor, lane)
        try check(cursor, keys.epoch, head: keys.head, feed: keys.feed)
        var next = cursor
        next.place = LanePlace(change: max(keys.head, cursor.place.change))
        if keys.hasMore, let last = keys.list.last { next.place = last.place }
        guard !keys.list.isEmpty else { return Page(events: [], next: next, hasMore: false) }
        return Page(events: try await events(keys.list, lane, cursor), next: next, hasMore: keys.hasMore)
    }

    private func check(_ cursor: EventCursor, _ epoch: Int64, head: Int64, feed: Int64) throws(Problem) {
        // a cursor after the end is only possible if an older backup was restored
        if cursor.epoch == epoch, cursor.place.change <= head, cursor.feed <= feed { return }
        var problem = Problem(
            .cursorExpired,
            "the data were restored after this event; read /v1/backlog, then listen from the path in `snapshot`"
        )
        problem.snapshot = "/v1/events"
        throw problem
    }

    // MARK: - Current state

    private func events(_ keys: [Key], _ lane: LaneKey, _ cursor: EventCursor) async throws(Problem) -> [Event] {
        // the values may have grown since their bytes were counted
        let bytes = Int64(Self.pageBytes) * 2
        let mutations = Parameters(of: lane, keys.filter { !$0.place.isMapping }.map(\.id), bytes, bytes)
        var mappings = Parameters(of: lane, keys.filter(\.place.isMapping).map(\.id))
        mappings.add(nil as String?)
        do {
            let (records, found) = try await catalog.opening(lane.organization) { [mutations, mappings] seal in
                let results = try await pool.run([
                    Query(MutationReader.recordsStatement, mutations), Query(MappingReader.statement, mappings),
                ])
                let seal = LaneSeal(seal: seal, user: lane.user)
                let records = try results[0].read { try RecordColumns.boundedRecord(&$0, seal) }
                return (records, try results[1].read(MappingReader.mapping))
            }
            return keys.compactMap { key in
                var next = cursor
                next.place = key.place
                switch key.place.last {
                case .mapping(let client, let type):
                    return found.first { $0.clientID == client && $0.entityType == type }
                        .map { Event(subject: .mapping($0), cursor: next) }
                case .mutation, nil:
                    return records.first { $0.id == key.id }.map { Event(subject: .mutation($0), cursor: next) }
                }
            }
        } catch {
            throw failure.problem(error, doing: "read what changed in a lane")
        }
    }
}

extension LanePlace {
    /// Whether the last subject at this place is a mapping.
    fileprivate var isMapping: Bool {
        if case .mapping = last { true } else { false }
    }
}

/// Reads the changes in a lane after a place, in order.
///
/// One snapshot contains the lane and the ids of the changed mutations and mappings. Their states are not read.
extension EventReader {
    /// A change without the subject's state.
    struct Key {
        let place: LanePlace
        /// The mutation's id, or the mapping's client id.
        let id: UUID
    }

    struct Keys {
        let head: Int64
        let epoch: Int64
        let feed: Int64
        /// The first changes, up to the size of a page.
        let list: [Key]
        let hasMore: Bool
    }

    func end(of lane: LaneKey) async throws(Problem) -> EventCursor {
        do {
            let rows = try await pool.run([Self.endStatement(organization: lane.organization, user: lane.user)])[0]
            guard var row = rows.first else { throw Problem(.organizationUnknown, "the organization has no feed") }
            return EventCursor(
                epoch: LaneEpoch.mixed(try row.read("epoch"), lane.user),
                feed: try row.read("last_position"),
                place: LanePlace(change: try row.read("head"))
            )
        } catch {
            throw failure.problem(error, doing: "read a lane")
        }
    }

    func keys(after cursor: EventCursor, _ lane: LaneKey) async throws(Problem) -> Keys {
        var (position, client, type) = (Int64.max, UUID.greatest, "~")
        switch cursor.place.last {
        case nil: break
        case .mutation(let last): (position, client, type) = (last, UUID.least, "")
        case .mapping(let last, let lastType): (client, type) = (last, lastType)
        }
        do {
            let rows = try await pool.run([
                Self.keysStatement(
                    organization: lane.organization,
                    user: lane.user,
                    from: cursor.place.change,
                    position: position,
                    client: client,
                    entity_type: type,
                    limit: Self.pageEvents,
                    bytes: Self.pageBytes
                )
            ])[0]
            guard rows.count > 0 else { throw Problem(.organizationUnknown, "the organization has no feed") }
            let found = try rows.read { row in
                (
                    epoch: LaneEpoch.mixed(try row.read("epoch"), lane.user),
                    feed: try row.read("last_position", as: Int64.self),
                    head: try row.read("head", as: Int64.self),
                    found: try row.read("found", as: Int?.self) ?? 0,
                    key: try Self.key(&row)
                )
            }
            let list = found.compactMap(\.key)
            return Keys(
                head: found[0].head,
                epoch: found[0].epoch,
                feed: found[0].feed,
                list: list,
                hasMore: list.count < found[0].found || list.count == Self.pageEvents
            )
        } catch {
            throw failure.problem(error, doing: "read what changed in a lane")
        }
    }

    /// Returns the change in a row; nil if the row contains no change.
    private static func key(_ row: inout RowReader) throws -> Key? {
        guard let change: Int64 = try row.read("change_position") else { return nil }
        let position: Int64? = try row.read("position")
        let id: UUID = try row.read("id")
        let type: String? = try row.read("entity_type")
        let last: LanePlace.Last
        switch (type, position) {
        case (let type?, _): last = .mapping(clientID: id, entityType: type)
        case (nil, let position?): last = .mutation(position: position)
        case (nil, nil): throw PostgresError(.decoding, "a change is of a mutation or of a mapping")
        }
        return Key(place: LanePlace(change: change, last: last), id: id)
    }

    // MARK: - Statements

    static let endStatement = Statement(
        "events_end",
        ["organization", "user"],
        """
        SELECT f.epoch, f.last_position, coalesce((
            SELECT l.change_position FROM lanes l WHERE l.organization_id = :organization AND l.user_id = :user), 0) AS head
        FROM feeds f
        WHERE f.organization_id = :organization
        """
    )

    private static let past = RowBytes.stop(when: "r.bytes_to > :bytes", by: "r.place", includesExceeding: true)

    /// Reads the first changes after a place. A place consists of a change position, and the last mutation or mapping
    /// that was read at this position.
    ///
    /// `found` is the number of changes that were found, at most the limit. The page contains the first of these
    /// changes. If there are no changes, the result is a single row without a change.
    static let keysStatement = Statement(
        "events_keys",
        ["organization", "user", "from", "position", "client", "entity_type", "limit", "bytes"],
        """
        SELECT f.epoch, f.last_position, coalesce((
                SELECT l.change_position FROM lanes l WHERE l.organization_id = :organization AND l.user_id = :user), 0) AS head,
            k.found, k.change_position, k.position, k.id, k.entity_type
        FROM feeds f
        LEFT JOIN LATERAL (
            SELECT v.*
            FROM (
                SELECT r.*, \(past) AS past
                FROM (
                    SELECT m.*, sum(\(RecordColumns.contentBytes(of: "m"))) OVER (
                            ORDER BY m.place ROWS UNBOUNDED PRECEDING) AS bytes_to
                    FROM (
                        SELECT w.*, row_number() OVER (
                                ORDER BY w.change_position, w.entity_type IS NOT NULL, w.position, w.id, w.entity_type
                            ) AS place, count(*) OVER () AS found
                        FROM (
                            SELECT u.*
                            FROM (
                                (
                                    SELECT x.change_position, x.position, x.id, NULL::text AS entity_type,
                                        x.response_body, x.error, x.depends_on
                                    FROM mutations x
                                    WHERE x.organization_id = :organization AND x.user_id = :user
                                        AND x.change_position >= :from
                                        AND (x.change_position, x.position) > (:from, :position)
                                    ORDER BY x.change_position, x.position
                                    LIMIT :limit
                                )
                                UNION ALL
                                (
                                    SELECT x.change_position, NULL, x.client_id, x.entity_type, NULL, NULL, NULL
                                    FROM id_mappings x
                                    WHERE x.organization_id = :organization AND x.user_id = :user
                                        AND x.change_position >= :from
                                        AND (x.change_position, x.client_id, x.entity_type)
                                            > (:from, :client, :entity_type)
                                    ORDER BY x.change_position, x.client_id, x.entity_type
                                    LIMIT :limit
                                )
                            ) u
                            ORDER BY u.change_position, u.entity_type IS NOT NULL, u.position, u.id, u.entity_type
                            LIMIT :limit
                        ) w
                    ) m
                ) r
            ) v
            WHERE v.past < 1
        ) k ON true
        WHERE f.organization_id = :organization
        ORDER BY k.place
        """
    )

    static let statements = [endStatement, keysStatement]
}
