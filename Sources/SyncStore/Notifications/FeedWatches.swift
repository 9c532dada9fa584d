package import FoundationEssentials
import Postgres
package import SyncModel

/// The watches on each organization's feed in this process. One poll serves all watches of a feed.
struct FeedWatches {
    private struct Feed {
        var watches: [ObjectIdentifier: (interest: FeedInterest, watch: any ChangeObserver)] = [:]
        /// The feed's end at the last poll.
        var known: Int64
        var isBeingRead = false
        /// Whether the feed has changed since the current poll began.
        var isDue = false
    }

    private var feeds: [UUID: Feed] = [:]
    private var names: [WakeName: UUID] = [:]

    var organizations: [UUID] { Array(feeds.keys) }

    /// - Parameter position: the position up to which the watch has read the feed.
    mutating func add(_ watch: any ChangeObserver, _ interest: FeedInterest, after position: Int64) {
        feeds[interest.organization, default: Feed(known: position)].watches[ObjectIdentifier(watch)] = (
            interest, watch
        )
        names[WakeName(feedOf: interest.organization)] = interest.organization
    }

    mutating func remove(_ watch: any ChangeObserver, _ interest: FeedInterest) {
        feeds[interest.organization]?.watches[ObjectIdentifier(watch)] = nil
        guard feeds[interest.organization]?.watches.isEmpty == true else { return }
        feeds[interest.organization] = nil
        names[WakeName(feedOf: interest.organization)] = nil
    }

    /// Returns the watched organization whose feed has this short name. The name is from a hint of another replica.
    func organization(_ name: WakeName) -> UUID? { names[name] }

    /// Records that a feed was changed.
    ///
    /// - Returns: whether the caller must start a reader of the feed.
    mutating func changed(_ organization: UUID) -> Bool {
        guard let feed = feeds[organization] else { return false }
        feeds[organization]?.isDue = true
        guard !feed.isBeingRead else { return false }
        feeds[organization]?.isBeingRead = true
        return true
    }

    /// Records the end of a feed.
    ///
    /// - Returns: whether the caller must start a reader of the feed.
    mutating func record(_ end: Int64, of organization: UUID) -> Bool {
        feeds[organization]?.known == end ? false : changed(organization)
    }

    /// Begins a poll. Returns the feed's end at the last poll, and the number of watches.
    ///
    /// The result is nil if no poll is due. The reader must then stop reading this feed.
    mutating func next(_ organization: UUID) -> (after: Int64, watches: Int)? {
        guard let feed = feeds[organization] else { return nil }
        guard feed.isDue else {
            feeds[organization]?.isBeingRead = false
            return nil
        }
        feeds[organization]?.isDue = false
        return (feed.known, feed.watches.count)
    }

    /// The users who watch a feed.
    func users(of organization: UUID) -> [UUID] {
        Set((feeds[organization]?.watches ?? [:]).values.lazy.map(\.interest.user)).sorted()
    }

    /// Records the feed's end after a poll, and returns the watches to signal.
    mutating func recordPoll(
        upTo end: Int64,
        of organization: UUID
    ) -> [ObjectIdentifier: (interest: FeedInterest, watch: any ChangeObserver)] {
        feeds[organization]?.known = end
        return feeds[organization]?.watches ?? [:]
    }
}

// MARK: - LaneWatches

/// The watches on each lane in this process.
struct LaneWatches {
    private struct Lane {
        let key: LaneKey
        var watches: [any ChangeObserver] = []
        /// The lane's change position at the last poll; nil before the first poll.
        var known: Int64?
    }

    private var lanes: [WakeName: [Lane]] = [:]

    private(set) var count = 0

    var keys: [LaneKey] { lanes.values.flatMap { $0.map(\.key) } }

    mutating func add(_ watch: any ChangeObserver, to key: LaneKey) {
        let name = WakeName(key)
        if let place = lanes[name]?.firstIndex(where: { $0.key == key }) {
            lanes[name]?[place].watches.append(watch)
        } else {
            lanes[name, default: []].append(Lane(key: key, watches: [watch]))
            count += 1
        }
    }

    mutating func remove(_ watch: any ChangeObserver, from key: LaneKey) {
        let name = WakeName(key)
        guard let place = lanes[name]?.firstIndex(where: { $0.key == key }) else { return }
        lanes[name]?[place].watches.removeAll { $0 === watch }
        guard lanes[name]?[place].watches.isEmpty == true else { return }
        lanes[name]?.remove(at: place)
        count -= 1
        if lanes[name]?.isEmpty == true { lanes[name] = nil }
    }

    func watches(of key: LaneKey) -> [any ChangeObserver] {
        lanes[WakeName(key)]?.first { $0.key == key }?.watches ?? []
    }

    /// Returns the watches of all lanes with this short name. Two lanes can have the same short name.
    func watches(of name: WakeName) -> [any ChangeObserver] {
        lanes[name]?.flatMap(\.watches) ?? []
    }

    /// Records a lane's change position. If the position is new, returns the watches to signal.
    mutating func record(_ position: Int64, of key: LaneKey) -> [any ChangeObserver] {
        let name = WakeName(key)
        guard let place = lanes[name]?.firstIndex(where: { $0.key == key }), let lane = lanes[name]?[place],
            lane.known != position
        else { return [] }
        lanes[name]?[place].known = position
        return lane.watches
    }
}

// MARK: - PendingFeedChanges

/// The changes in a feed after a position, and the users who may see these changes.
struct PendingFeedChanges: Sendable {
    /// The maximum number of changes that are read. If there are more changes, the users who may see them are unknown.
    static let limit: Int64 = 1_000

    let epoch: Int64
    let end: Int64
    /// Whether all changes were read.
    private let isComplete: Bool
    /// Whether the organization has types with channels. If it has, ``add(readers:)`` is required.
    private(set) var hasChannels = false
    private var visibleToAll = Newest()
    private var visibleToOwner: [UUID: Newest] = [:]
    /// Users who may see a change in channels, or whose own channels have changed.
    private var readers: Set<UUID> = []

    /// The position of the newest change, over all types and for each type.
    private struct Newest {
        var position: Int64 = 0
        var byType: [ByteExactString: Int64] = [:]

        mutating func record(_ newer: Int64, _ type: String) {
            position = max(position, newer)
            byType[type] = max(byType[type] ?? 0, newer)
        }

        func of(_ types: Set<ByteExactString>) -> Int64 {
            types.isEmpty ? position : types.reduce(0) { max($0, byType[$1] ?? 0) }
        }
    }

    init?(_ rows: Rows) throws {
        guard var first = rows.first else { return nil }
        epoch = try first.read("epoch")
        end = try first.read("last_position")
        hasChannels = try first.read("has_channels")
        isComplete = rows.count < Self.limit
        for var row in rows {
            row.skip("epoch")
            row.skip("last_position")
            row.skip("has_channels")
            guard let position: Int64 = try row.read("feed_position") else { continue }
            let type: String = try row.read("entity_type")
            if let owner: UUID = try row.read("only_for") {
                visibleToOwner[owner, default: Newest()].record(position, type)
            } else {
                visibleToAll.record(position, type)
            }
        }
    }

    /// Returns the position of the newest change that the listener may see and has subscribed to; nil without such a
    /// change.
    func newest(for interest: FeedInterest) -> Int64? {
        guard isComplete else { return end }
        if readers.contains(interest.user) { return end }
        let own = visibleToOwner[interest.user]?.of(interest.entityTypes) ?? 0
        let newest = max(own, visibleToAll.of(interest.entityTypes))
        return newest > 0 ? newest : nil
    }

    /// The query that finds users, among `users`, who may see a change in channels.
    static func readers(_ organization: UUID, after position: Int64, among users: [UUID]) -> Query {
        readersStatement(
            organization: organization,
            after: position,
            users: users,
            own: users.map { ChannelID.of(user: $0).uuid },
            everyone: ChannelID.everyone.uuid,
            limit: limit
        )
    }

    mutating func add(readers rows: Rows) throws {
        for var row in rows { readers.insert(try row.read("user_id")) }
    }

    static func query(_ organization: UUID, after position: Int64) -> Query {
        return statement(organization: organization, after: position, limit: limit)
    }

    private static let changes = FeedOrder.entities(
        "e.feed_position, e.entity_type, e.owner_id, e.channels",
        where: "e.organization_id = :organization AND e.feed_position > :after",
        limit: ":limit"
    )

    /// Reads the state of a feed, and its first changes after a position.
    ///
    /// If no entity has changed, the result is a single row without an entity. Entities in channels have no position in
    /// the result, because ``readersStatement`` finds their readers.
    static let statement = Statement(
        "feed_news",
        ["organization", "after", "limit"],
        """
        SELECT f.epoch, f.last_position, EXISTS (
                SELECT FROM entity_types t WHERE t.organization_id = :organization AND t.visibility = 'channels')
                AS has_channels, CASE WHEN NOT e.is_in_channels THEN e.feed_position END AS feed_position, e.entity_type,
            CASE WHEN e.is_private THEN e.owner_id END AS only_for
        FROM feeds f
        LEFT JOIN LATERAL (
            SELECT x.feed_position, x.entity_type, x.owner_id,
                x.entity_type = ANY (ARRAY(
                    SELECT t.name FROM entity_types t
                    WHERE t.organization_id = :organization AND t.visibility = 'user')) AS is_private,
                x.channels IS NOT NULL OR x.entity_type = ANY (ARRAY(
                    SELECT t.name FROM entity_types t
                    WHERE t.organization_id = :organization AND t.visibility = 'channels')) AS is_in_channels
            FROM \(changes) x
        ) e ON true
        WHERE f.organization_id = :organization
        """
    )

    /// Finds the users who may see a change in channels. If there are more changes than the limit, returns all users,
    /// and each of them reads the feed.
    static let readersStatement = Statement(
        "feed_news_readers",
        ["organization", "after", "users", "own", "everyone", "limit"],
        """
        WITH changed AS (
            SELECT DISTINCT c.channel
            FROM (
                SELECT x.channels FROM entities x
                WHERE x.organization_id = :organization AND x.feed_position > :after AND x.channels IS NOT NULL
                ORDER BY x.feed_position LIMIT :limit
            ) e
            CROSS JOIN LATERAL unnest(e.channels) AS c (channel)
            UNION
            SELECT x.channel FROM (
                SELECT y.channel FROM ended_stays y
                WHERE y.organization_id = :organization AND y.left_at + 0 > :after
                ORDER BY y.left_at + 0 LIMIT :limit
            ) x
        )
        SELECT k.user_id
        FROM unnest(:users::uuid[], :own::uuid[]) AS k (user_id, own)
        WHERE EXISTS (SELECT FROM changed c WHERE c.channel IN (k.own, :everyone))
            OR EXISTS (
                SELECT FROM channel_grants g
                WHERE g.organization_id = :organization AND g.user_id = k.user_id AND g.changed_at > :after)
            OR EXISTS (
                SELECT FROM changed c
                CROSS JOIN LATERAL (
                    SELECT FROM channel_grants g
                    WHERE g.organization_id = :organization AND g.channel = c.channel AND g.user_id = k.user_id
                        AND g.until IS NULL
                    LIMIT 1
                ) h)
            -- if as many changes as the limit were found, further changes may exist
            OR (SELECT count(*) FROM (
                SELECT FROM entities x
                WHERE x.organization_id = :organization AND x.feed_position > :after AND x.channels IS NOT NULL
                LIMIT :limit
            ) x) >= :limit::int8
        """
    )
}

/// The part of an organization's feed that a listener subscribes to.
package struct FeedInterest: Sendable, Hashable {
    package var organization: UUID
    /// The reader. Entities with `visibility: "user"` are visible to their owner only.
    package var user: UUID
    /// The entity types; empty for all types.
    package var entityTypes: Set<ByteExactString>

    package init(organization: UUID, user: UUID, entityTypes: Set<ByteExactString> = []) {
        self.organization = organization
        self.user = user
        self.entityTypes = entityTypes
    }
}
