import FoundationEssentials
import Postgres
import SyncModel
import Synchronization

/// Polls all lanes and feeds that are watched.
///
/// The polls find changes whose hints were lost. For a feed, they also find the watchers that may see its changes.
extension ChangeNotifier {
    func runPollLoop() async {
        var last = ContinuousClock.now
        while !Task.isCancelled {
            try? await Task.sleep(for: Self.intervalWithoutHints)
            let isWanted = pollNow.exchange(false, ordering: .relaxed)
            let watched = state.withLock { $0.lanes.count }
            let interval =
                hints.isReceiving ? intervalWithHints : max(Self.intervalWithoutHints, .microseconds(200) * watched)
            guard isWanted || .now - last >= interval else { continue }
            last = .now
            await poll()
        }
    }

    private func poll() async {
        let (lanes, organizations) = state.withLock { ($0.lanes.keys, $0.feeds.organizations) }
        for start in stride(from: 0, to: lanes.count, by: Self.lanesAtATime) {
            await poll(Array(lanes[start..<min(start + Self.lanesAtATime, lanes.count)]))
        }
        for start in stride(from: 0, to: organizations.count, by: Self.lanesAtATime) {
            await poll(Array(organizations[start..<min(start + Self.lanesAtATime, organizations.count)]))
        }
    }

    /// Polls lanes. If the database is unavailable, this poll finds nothing, and the next poll finds the changes.
    private func poll(_ lanes: [LaneKey]) async {
        guard let rows = try? await pool.run([Query(Self.lanesStatement, LaneRows.keys(lanes))])[0],
            let found = try? rows.read({
                (lane: try $0.lane(), position: try $0.read("change_position", as: Int64.self))
            })
        else { return }
        let watches = state.withLock { state in
            found.flatMap { state.lanes.record($0.position, of: $0.lane) }
        }
        for watch in watches { watch.laneChanged() }
    }

    private func poll(_ organizations: [UUID]) async {
        guard let rows = try? await pool.run([Self.feedsStatement(organizations: organizations)])[0],
            let found = try? rows.read({
                (feed: try $0.read("organization_id", as: UUID.self), end: try $0.read("last_position", as: Int64.self))
            })
        else { return }
        let moved = state.withLock { state in
            found.filter { state.feeds.record($0.end, of: $0.feed) }.map(\.feed)
        }
        for organization in moved { movedFeeds.continuation.yield(organization) }
    }

    // MARK: - Feeds

    func followFeeds() async {
        await withDiscardingTaskGroup { group in
            for await organization in movedFeeds.stream {
                group.addTask { await self.follow(organization) }
            }
            group.cancelAll()
        }
    }

    /// Polls a feed while it changes, and notifies the watchers that may see a change.
    ///
    /// The pause between two polls grows with the number of watchers, up to half a second.
    private func follow(_ organization: UUID) async {
        while let (after, watches) = state.withLock({ $0.feeds.next(organization) }) {
            do {
                let rows = try await pool.run([PendingFeedChanges.query(organization, after: after)])[0]
                if var changes = try PendingFeedChanges(rows) {
                    if changes.hasChannels {
                        let users = state.withLock { $0.feeds.users(of: organization) }
                        let query = PendingFeedChanges.readers(organization, after: after, among: users)
                        try changes.add(readers: await pool.readByIndex([query])[0])
                    }
                    let watching = state.withLock { $0.feeds.recordPoll(upTo: changes.end, of: organization) }
                    for (interest, watch) in watching.values {
                        if let position = changes.newest(for: interest) { watch.feedMoved(to: position) }
                    }
                }
            } catch {
                // so that the feed is polled again when the database is available
                _ = state.withLock { $0.feeds.changed(organization) }
                try? await Task.sleep(for: Self.intervalWithoutHints)
            }
            if Task.isCancelled { return }
            try? await Task.sleep(for: min(.milliseconds(500), .milliseconds(20) + .microseconds(50) * watches))
        }
    }

    // MARK: - Statements

    static let lanesStatement = Statement(
        "wake_lanes",
        Columns.lanes.inputs,
        """
        SELECT k.organization_id, k.user_id, l.change_position
        FROM \(Columns.lanes.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT x.change_position FROM lanes x
            WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id
            OFFSET 0
        ) l
        """,
        // on Citus, the statement reads from all servers, and the result can have rows for other pairs of these
        // organizations and users; the caller skips such rows
        variant: """
            SELECT x.organization_id, x.user_id, x.change_position FROM lanes x
            WHERE x.organization_id = ANY (:organization_id::uuid[]) AND x.user_id = ANY (:user_id::uuid[])
            """
    )

    static let feedsStatement = Statement(
        "wake_feeds",
        ["organizations"],
        """
        SELECT k.organization_id, f.last_position
        FROM unnest(:organizations::uuid[]) AS k (organization_id)
        CROSS JOIN LATERAL (
            SELECT x.last_position FROM feeds x WHERE x.organization_id = k.organization_id OFFSET 0
        ) f
        """,
        variant:
            "SELECT x.organization_id, x.last_position FROM feeds x WHERE x.organization_id = ANY (:organizations::uuid[])"
    )

    static let statements = [lanesStatement, feedsStatement]
}
