import FoundationEssentials
import Metrics
import Postgres
import SyncModel
import Synchronization

/// Reads the feed for users of organizations with channels (product rule 28).
///
/// A page costs one round trip while the user's grants are cached. Cached grants are valid for one position of the
/// feed. The page's statement checks in its own snapshot that the grants have not changed since this position. If they
/// have changed, the statement returns no rows, and the grants are read again.
package final class ChannelFeedReader: Sendable {
    /// A user's grants, as of a position of a feed.
    struct Grants: Sendable {
        let history: GrantHistory
        let epoch: Int64
        let position: Int64
    }

    /// The result of one read.
    private enum Found {
        case page(FeedPage)
        case expired(isOfThisEpoch: Bool)
        /// The cached grants are outdated.
        case outdated
    }

    private struct State {
        var grants = GenerationCache<LaneKey, Grants>(capacity: 20_000)
        var organizations: Set<UUID> = []
    }

    /// The number of pages that list the entities of a channel which the pulling user has just gained or lost.
    package static let grantPages = "sluice_channel_grant_pages_total"

    private static let attempts = 5
    /// The maximum number of steps without a change in one request. After these steps, the response is an empty page.
    private static let emptySteps = 16

    private let pool: Pool
    private let state = Mutex(State())
    private let counter = Counter(label: grantPages)

    init(pool: Pool) { self.pool = pool }

    /// Whether an organization is known to have types with channels, or to have had such types.
    func hasChannels(_ organization: UUID) -> Bool { state.withLock { $0.organizations.contains(organization) } }

    func noteChannels(_ organization: UUID) {
        state.withLock { state in
            if state.organizations.count >= Catalog.capacity { state.organizations.removeAll() }
            state.organizations.insert(organization)
        }
    }

    /// Reads a page, and runs `others` in the same round trip.
    func read(
        _ request: FeedRequest,
        after cursor: FeedCursor?,
        _ others: [Query]
    ) async throws -> (reading: FeedReader.Reading, others: ArraySlice<Rows>) {
        var cursor = cursor
        var steps = 0
        var attempts = 0
        while true {
            let lane = LaneKey(organization: request.organization, user: request.user)
            let grants = try await grants(of: lane)
            let pull = ChannelPull(
                after: cursor,
                epoch: grants.epoch,
                asOf: grants.position,
                grants.history,
                filter: request.filter,
                requested: request.channels.map { Set($0.map(ChannelID.init(named:))) },
                others: request.includesOthers
            )
            // with this setting, each list of rows is read in the order of its index
            let query = [Query(Pool.orderShape), Self.query(request, pull, asOf: grants.position)]
            let results = try await pool.readByIndex(query + others).dropFirst()
            switch try Self.page(results[results.startIndex], pull, asOf: grants.position, request) {
            case .outdated:
                attempts += 1
                guard attempts < Self.attempts else { throw Problem.overloaded("the user's channels are changing") }
                state.withLock { $0.grants.remove(lane) }
            case .expired(let isOfThisEpoch):
                return (.expired(isOfThisEpoch: isOfThisEpoch), results.dropFirst())
            case .page(let page):
                steps += 1
                if pull.step != .changes { counter.increment() }
                guard page.changes.isEmpty, !page.isUpToDate, steps < Self.emptySteps else {
                    return (.page(page), results.dropFirst())
                }
                cursor = page.next
            }
        }
    }

    private func grants(of user: LaneKey) async throws -> Grants {
        if let cached = state.withLock({ $0.grants.find(user) }) { return cached }
        let query = ChannelStatements.history(organization: user.organization, user: user.user)
        let rows = try await pool.readByIndex([query])[0]
        var (epoch, position): (Int64, Int64) = (0, 0)
        var grants: [ChannelGrant] = []
        for var row in rows {
            epoch = try row.read("epoch")
            position = try row.read("last_position")
            guard let channel: UUID = try row.read("channel") else { continue }
            grants.append(
                ChannelGrant(
                    channel: ChannelID(channel),
                    role: try row.choice("role"),
                    since: try row.read("since"),
                    until: try row.read("until"),
                    isOfJoinedUser: try row.read("is_of_joined_user")
                )
            )
        }
        let found = Grants(history: GrantHistory(of: user.user, grants), epoch: epoch, position: position)
        state.withLock { $0.grants.insert(found, for: user) }
        return found
    }

    // MARK: - One read

    private static func query(_ request: FeedRequest, _ pull: ChannelPull, asOf position: Int64) -> Query {
        let channels = pull.channels
        // `room` is the maximum number of rows that are read from each channel: one and a half times the number of rows
        // that each channel would have on a full page if all channels had equally many rows. A scan has its own limit.
        let scans = scansFeed(pull, channels.count, asOf: position)
        let average = max(1, request.limit * 3 / 2 / max(1, channels.count) + 1)
        let room = scans ? scanRows(channels.count) : min(request.limit, average)
        let page = scans ? ChannelFeedStatements.scan : ChannelFeedStatements.merge
        return page(
            organization: request.organization,
            owner: request.user,
            as_of: position,
            channels: channels.map(\.uuid),
            after: pull.after,
            up_to: pull.upTo,
            ended_after: pull.endedAfter ?? .max,
            scan: pull.includesOthers ? Int64(min(request.limit * FeedReader.scanFactor, 10_000)) : 0,
            entity_types: request.entityTypes,
            room: Int64(room),
            limit: Int64(request.limit),
            bytes: FeedReader.pageBytes,
            is_loss: pull.isLoss
        )
    }

    /// The number of channels above which a page may read all changes of the feed.
    private static let manyChannels = 200

    /// The maximum number of changes that a scan reads. Reading a channel costs about as much as scanning ten changes.
    private static func scanRows(_ channels: Int) -> Int { min(10 * channels, 10_000) }

    /// Whether a page reads all changes after the cursor, instead of a few rows of each channel.
    private static func scansFeed(_ pull: ChannelPull, _ channels: Int, asOf position: Int64) -> Bool {
        guard pull.step == .changes, channels > manyChannels else { return false }
        return position - pull.after <= Int64(scanRows(channels))
    }

    /// Reads the rows of a statement of ``ChannelFeedStatements``.
    private static func page(
        _ rows: Rows,
        _ pull: ChannelPull,
        asOf position: Int64,
        _ request: FeedRequest
    ) throws -> Found {
        guard var first = rows.first else { throw Problem(.organizationUnknown, "the organization has no feed") }
        let head = try Head(&first)
        // ends of grants up to the horizon may have been deleted, so the statement cannot find them
        if head.isStale || head.epoch != pull.epoch || head.horizon > position { return .outdated }
        if let cursor = pull.cursor {
            guard cursor.epoch == head.epoch, cursor.position <= head.last, !pull.isOfOtherReader else {
                return .expired(isOfThisEpoch: false)
            }
            guard head.horizon <= cursor.reach else { return .expired(isOfThisEpoch: true) }
        }
        var page = ChannelPage()
        for var row in rows {
            Head.skip(&row)
            guard let position: Int64 = try row.read("position") else { continue }
            try page.add(&row, at: position, pull)
        }
        let next = pull.next(examined: page.cut ?? head.bound, end: head.last)
        return .page(
            FeedPage(
                page.changes,
                at: page.positions,
                next: next,
                isUpToDate: ChannelPull.isUpToDate(next, end: head.last),
                horizon: head.horizon
            ) { pull.next(examined: $0, end: head.last) }
        )
    }

    /// The columns about the feed and the read. These columns have the same values in all rows.
    private struct Head {
        let epoch: Int64
        let horizon: Int64
        let last: Int64
        let isStale: Bool
        /// The position up to which all rows were read; nil if there are no further rows.
        let bound: Int64?

        init(_ row: inout RowReader) throws {
            epoch = try row.read("epoch")
            horizon = try row.read("horizon")
            last = try row.read("last_position")
            isStale = try row.read("is_stale")
            bound = try row.read("bound")
        }

        static func skip(_ row: inout RowReader) {
            for name in ["epoch", "horizon", "last_position", "is_stale", "bound"] as [StaticString] { row.skip(name) }
        }
    }

    /// The changes of a page while its rows are evaluated.
    private struct ChannelPage {
        var changes: [FeedChange] = []
        var positions: [Int64] = []
        /// The position after which the page was cut; nil if it was not cut.
        var cut: Int64?

        /// Adds a row. All rows with the same position are about one entity.
        mutating func add(_ row: inout RowReader, at position: Int64, _ pull: ChannelPull) throws {
            if try row.read("is_cut") { cut = position }
            guard try row.read("is_asked") else { return }
            let channel: UUID? = try row.read("channel")
            let joinedAt: Int64? = try row.read("joined_at")
            let isEnded: Bool = try row.read("is_ended")
            let isStored: Bool = try row.read("is_stored")
            let presence = ChannelPull.Presence(
                channels: try row.read("channels", as: [UUID]?.self)?.map(ChannelID.init),
                isSeenWithout: try row.read("is_seen_without"),
                isDeleted: try row.read("is_gone")
            )
            var verdict = isStored ? ChannelPull.Verdict.show : .skip
            if let channel, let joinedAt {
                let leftAt = isEnded ? position : nil
                let stay = ChannelPull.Stay(channel: ChannelID(channel), joinedAt: joinedAt, leftAt: leftAt)
                verdict = pull.verdict(on: stay, of: isStored ? presence : nil)
            }
            switch verdict {
            case .skip: return
            case .show: set(try FeedChange(&row), at: position)
            case .remove where positions.last != position: set(try FeedChange(removed: &row), at: position)
            case .remove: return
            }
        }

        private mutating func set(_ change: FeedChange, at position: Int64) {
            if positions.last == position {
                changes[changes.count - 1] = change
            } else {
                changes.append(change)
                positions.append(position)
            }
        }
    }
}
