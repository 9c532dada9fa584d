import Foundation

@testable import SyncModel

/// An organization with channels in memory: the content of the tables, and plain sets for the oracle.
///
/// The feed is read from stays and grants, as the store does. The oracle uses neither: it has each entity's channels
/// and each user's sources, and evaluates them for all users and entities after each step.
struct ChannelWorld {
    struct Entity {
        var version = 1
        var isDeleted = false
        var position: Int64
        /// Nil for an entity whose visibility does not depend on channels.
        var channels: Set<ChannelID>?
        /// For an entity without channels: its only reader, or nil if all users may read it.
        var owner: Int?
    }

    struct OpenStay {
        var joinedAt: Int64
        let entity: Int
    }

    struct EndedStay {
        var joinedAt: Int64
        let leftAt: Int64
        let entity: Int
    }

    struct Grant {
        let source: Int
        var row: ChannelGrant
    }

    static let users = 4
    static let userIDs = (0..<users).map { UUID(uuid: (9, 0, 0, 0, 0, 0, 64, 0, 128, 0, 0, 0, 0, 0, 0, UInt8($0))) }
    static let own = userIDs.map(ChannelID.of(user:))
    static let shared = (0..<6).map { ChannelID(named: "c/\($0)") }

    private(set) var epoch: Int64 = 1
    private(set) var end: Int64 = 0
    private(set) var horizon: Int64 = 0
    private(set) var entities: [Int: Entity] = [:]
    private(set) var open: [ChannelID: [Int64: OpenStay]] = [:]
    private(set) var ended: [ChannelID: [EndedStay]] = [:]
    private(set) var grants: [[Grant]] = Array(repeating: [], count: users)
    /// For each user, the user into whom this one was merged, or otherwise this user.
    private(set) var owners = Array(0..<users)
    /// Entities that the transaction has written.
    private var written: Set<Int> = []

    // MARK: - The oracle

    /// The sources by which each user holds a channel.
    private(set) var sources: [[ChannelID: Set<Int>]] = Array(repeating: [:], count: users)
    /// Entities that each user could see after some transaction.
    private(set) var couldSee: [Set<Int>] = Array(repeating: [], count: users)

    func holds(_ user: Int, _ channel: ChannelID) -> Bool {
        channel == .everyone || channel == Self.own[user] || sources[user][channel]?.isEmpty == false
    }

    /// - Parameter others: whether entities without channels, and those in the user's own channel, are requested, too.
    func sees(_ user: Int, _ entity: Entity, only requested: Set<ChannelID>?, others: Bool = false) -> Bool {
        guard let channels = entity.channels else {
            return (requested == nil || others) && (entity.owner.map { $0 == user } ?? true)
        }
        return channels.contains { channel in
            let isRequested = requested?.contains(channel) ?? true
            return (isRequested || others && channel == Self.own[user]) && holds(user, channel)
        }
    }

    /// The living entities that a user sees, with their versions.
    func visible(to user: Int, only requested: Set<ChannelID>?, others: Bool) -> [Int: Int] {
        entities.filter { !$0.value.isDeleted && sees(user, $0.value, only: requested, others: others) }
            .mapValues(\.version)
    }

    private mutating func observe() {
        for (id, entity) in entities {
            for user in 0..<Self.users where !couldSee[user].contains(id) && sees(user, entity, only: nil) {
                couldSee[user].insert(id)
            }
        }
    }

    // MARK: - Writes

    /// Runs a transaction, which writes an entity at most once.
    ///
    /// Its grants, and the stays that begin in it, count from its last position on.
    mutating func transact(_ changes: (inout ChannelWorld) -> Void) {
        let start = end
        written = []
        changes(&self)
        for (channel, stays) in open {
            for (position, stay) in stays where stay.joinedAt > start { open[channel]?[position]?.joinedAt = end }
        }
        for (channel, stays) in ended {
            for place in stays.indices where stays[place].joinedAt > start { ended[channel]?[place].joinedAt = end }
        }
        for user in grants.indices {
            for place in grants[user].indices {
                let row = grants[user][place].row
                grants[user][place].row = ChannelGrant(
                    channel: row.channel,
                    role: row.role,
                    since: row.since > start ? end : row.since,
                    until: row.until.map { $0 > start ? end : $0 }
                )
            }
        }
        observe()
    }

    /// Writes an entity with the channels of its new document.
    mutating func write(_ id: Int, in channels: Set<ChannelID>?, owner: Int? = nil) {
        guard written.insert(id).inserted else { return }
        end += 1
        let old = entities[id]
        // an entity whose visibility does not depend on channels keeps its owner
        let owner = old.map { $0.channels == nil ? $0.owner : owner } ?? owner
        if channels != nil || old?.channels != nil {
            let before = old.map { $0.channels ?? [$0.owner.map { Self.own[$0] } ?? .everyone] } ?? []
            moveStays(of: id, old, before, to: channels ?? [])
        }
        entities[id] = Entity(
            version: (old?.version ?? 0) + 1,
            position: end,
            channels: channels,
            owner: channels == nil ? owner : nil
        )
    }

    mutating func delete(_ id: Int) {
        guard var entity = entities[id], !entity.isDeleted, written.insert(id).inserted else { return }
        end += 1
        if let channels = entity.channels { moveStays(of: id, entity, channels, to: channels) }
        entity.version += 1
        entity.isDeleted = true
        entity.position = end
        entities[id] = entity
    }

    /// - Parameter before: the channels that the entity was in. An entity without channels was in the channel of its
    ///   readers: `everyone`, or its owner's own channel.
    private mutating func moveStays(
        of id: Int,
        _ old: Entity?,
        _ before: Set<ChannelID>,
        to channels: Set<ChannelID>
    ) {
        for channel in before.subtracting(channels) {
            // an entity whose visibility did not depend on channels has no stay
            let stay = old.flatMap { open[channel]?.removeValue(forKey: $0.position) }
            ended[channel, default: []].append(EndedStay(joinedAt: stay?.joinedAt ?? 0, leftAt: end, entity: id))
        }
        for channel in channels {
            let stay = before.contains(channel) ? old.flatMap { open[channel]?.removeValue(forKey: $0.position) } : nil
            open[channel, default: [:]][end] = OpenStay(joinedAt: stay?.joinedAt ?? end, entity: id)
        }
    }

    // MARK: - Grants

    mutating func grant(_ channel: ChannelID, to user: Int, source: Int, raises: Bool = true) {
        guard sources[user][channel]?.contains(source) != true else { return }
        if raises { end += 1 }
        grants[user].append(Grant(source: source, row: ChannelGrant(channel: channel, role: .read, since: end)))
        sources[user][channel, default: []].insert(source)
    }

    mutating func revoke(_ channel: ChannelID, from user: Int, source: Int, raises: Bool = true) {
        guard sources[user][channel]?.contains(source) == true else { return }
        if raises { end += 1 }
        for place in grants[user].indices where grants[user][place].source == source {
            let row = grants[user][place].row
            guard row.channel == channel, row.until == nil else { continue }
            grants[user][place].row = ChannelGrant(channel: channel, role: row.role, since: row.since, until: end)
        }
        sources[user][channel]?.remove(source)
    }

    /// Merges a user into another one, who takes over the user's grants and own channel.
    mutating func merge(_ user: Int, into other: Int) {
        guard owners[user] == user, owners[other] == other, user != other else { return }
        end += 1
        owners = owners.map { $0 == user ? other : $0 }
        for (channel, held) in sources[user] {
            for source in held { grant(channel, to: other, source: source, raises: false) }
        }
        grant(Self.own[user], to: other, source: 100 + user, raises: false)
        (sources[user], grants[user]) = ([:], [])
        for (id, entity) in entities where entity.owner == user && entity.channels == nil {
            entities[id]?.owner = other
            if !entity.isDeleted { write(id, in: nil) }
        }
        couldSee[other].formUnion(couldSee[user])
    }

    // MARK: - Retention and restores

    mutating func prune(upTo position: Int64) {
        guard position > horizon else { return }
        horizon = position
        for (id, entity) in entities where entity.isDeleted && entity.position <= horizon {
            entities[id] = nil
            for channel in entity.channels ?? [] { open[channel]?[entity.position] = nil }
        }
        for channel in ended.keys { ended[channel]?.removeAll { $0.leftAt <= position } }
        // if a channel was granted again, its earlier grants are kept: devices may not have received the ends of those
        // grants
        for user in grants.indices {
            let needed = Set(grants[user].filter { $0.row.until.map { $0 > position } ?? true }.map(\.row.channel))
            grants[user].removeAll { !needed.contains($0.row.channel) }
        }
    }

    /// This state as restored from a backup, with a new epoch.
    func restored(after other: ChannelWorld) -> ChannelWorld {
        var world = self
        world.epoch = other.epoch + 1
        return world
    }

    // MARK: - The feed

    struct Page {
        var changes: [(entity: Int, version: Int?)] = []
        var isUpToDate: Bool
        var next: FeedCursor
    }

    /// Reads a page as the store does; nil for an expired cursor.
    ///
    /// - Parameter room: the maximum number of rows read from each list: a channel's open stays, its ended stays, and
    ///   the entities without channels.
    func page(
        for user: Int,
        after cursor: FeedCursor?,
        only requested: Set<ChannelID>?,
        others: Bool,
        limit: Int,
        room: Int
    ) -> Page? {
        if let cursor {
            guard cursor.epoch == epoch, cursor.position <= end, horizon <= cursor.reach else { return nil }
        }
        let pull = ChannelPull(
            after: cursor,
            epoch: epoch,
            asOf: end,
            GrantHistory(of: Self.userIDs[user], grants[user].map(\.row)),
            filter: 0,
            requested: requested,
            others: others
        )
        if pull.isOfOtherReader { return nil }
        var (rows, bound) = rows(of: pull, for: user, room: room)
        var examined: Int64? = bound == .max ? nil : bound
        let positions = Set(rows.map(\.position)).sorted()
        if positions.count > limit {
            examined = positions[limit - 1]
            rows.removeAll { $0.position > positions[limit - 1] }
        }
        let next = pull.next(examined: examined, end: end)
        var page = Page(isUpToDate: ChannelPull.isUpToDate(next, end: end), next: next)
        for (_, rows) in Dictionary(grouping: rows, by: \.position).sorted(by: { $0.key < $1.key }) {
            let entity = rows[0].entity
            let verdicts = rows.map { row -> ChannelPull.Verdict in
                guard let stay = row.stay else { return .show }
                return pull.verdict(on: stay, of: entities[entity].map { presence(of: $0, for: user) })
            }
            if verdicts.contains(.show), let state = entities[entity] {
                page.changes.append((entity, state.isDeleted ? -1 : state.version))
            } else if verdicts.contains(.remove) {
                page.changes.append((entity, nil))
            }
        }
        return page
    }

    private func presence(of entity: Entity, for user: Int) -> ChannelPull.Presence {
        ChannelPull.Presence(
            channels: entity.channels.map(Array.init),
            isSeenWithout: entity.channels == nil && (entity.owner.map { $0 == user } ?? true),
            isDeleted: entity.isDeleted
        )
    }

    private typealias Row = (position: Int64, entity: Int, stay: ChannelPull.Stay?)

    /// Returns the rows of all lists up to `bound`. A list that may have more rows was read up to some position;
    /// `bound` is the lowest of these positions.
    private func rows(of pull: ChannelPull, for user: Int, room: Int) -> ([Row], bound: Int64) {
        var found: [Row] = []
        var bound = Int64.max
        func add(_ rows: [Row]) {
            let first = rows.sorted { $0.position < $1.position }.prefix(room)
            if first.count == room, let last = first.last { bound = min(bound, last.position) }
            found += first
        }
        for channel in pull.channels {
            add(
                (open[channel] ?? [:]).filter { $0.key > pull.after && $0.key <= pull.upTo }.map { position, stay in
                    let row = ChannelPull.Stay(channel: channel, joinedAt: stay.joinedAt, leftAt: nil)
                    return (position, stay.entity, row)
                }
            )
            guard let after = pull.endedAfter else { continue }
            add(
                (ended[channel] ?? []).filter { $0.leftAt > after }.map { stay in
                    let row = ChannelPull.Stay(channel: channel, joinedAt: stay.joinedAt, leftAt: stay.leftAt)
                    return (stay.leftAt, stay.entity, row)
                }
            )
        }
        if pull.includesOthers {
            let others = entities.filter { $0.value.channels == nil && $0.value.position > pull.after }
            let first = others.sorted { $0.value.position < $1.value.position }.prefix(room)
            if first.count == room, let last = first.last { bound = min(bound, last.value.position) }
            for (id, entity) in first where entity.owner.map({ $0 == user }) ?? true {
                found.append((entity.position, id, nil))
            }
        }
        return (found.filter { $0.position <= bound }, bound)
    }
}
