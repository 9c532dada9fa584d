import FoundationEssentials
import Logging
import SyncModel
import SyncStore

/// Searches the database for due lanes, and postpones the lanes of upstreams whose circuit is open.
struct LaneSearch: Sendable {
    /// The maximum number of lanes that one search returns.
    private static let limit = 1_000

    let store: LaneStore
    let circuits: Circuits
    let inbox: Inbox
    let now: TimeSource
    let logger: Logger

    /// Searches all organizations except the given ones.
    ///
    /// - Parameter running: the lanes that must not be postponed, because they are about to be claimed.
    func search(excluding organizations: [UUID], running: Set<LaneKey>) async {
        let search = await search(Self.limit, running: running) { now, limit throws(Problem) in
            try await store.due(at: now, excluding: organizations, limit: limit)
        }
        inbox.post { messages in
            messages.due =
                search.map { Inbox.Due(lanes: $0.lanes, isAll: $0.isAll) } ?? Inbox.Due(lanes: [], isAll: true)
            // postponed lanes may have displaced other lanes from the limited result
            if let search, !search.isAll, search.hasPostponed { messages.mustPoll = true }
        }
    }

    /// Searches one organization.
    func search(_ organization: UUID, _ limit: Int, running: Set<LaneKey>) async {
        let search = await search(limit, running: running) { now, limit throws(Problem) in
            try await store.due(at: now, in: organization, limit: limit)
        }
        guard let search else { return }
        inbox.post { $0.found.append(.init(organization: organization, lanes: search.lanes, isAll: search.isAll)) }
    }

    private func search(
        _ limit: Int,
        running: Set<LaneKey>,
        _ read: (Timestamp, Int) async throws(Problem) -> [LaneKey]
    ) async -> (lanes: [LaneKey], isAll: Bool, hasPostponed: Bool)? {
        do throws(Problem) {
            let now = now()
            let due = try await read(now, limit)
            let (lanes, postponed) = sort(due, running: running)
            try await store.postpone(postponed, now: now)
            return (lanes, due.count < limit, !postponed.isEmpty)
        } catch {
            logger.debug("Due lanes cannot be queried", metadata: ["reason": "\(error.detail)"])
            return nil
        }
    }

    /// Separates lanes that can be claimed from lanes to postpone.
    ///
    /// A lane is postponed while its upstream's circuit is open, because a claim would have no effect. Once a probe is
    /// allowed, one lane of the upstream is not postponed, preferably a lane whose last probe did not fail.
    private func sort(
        _ due: [LaneKey],
        running: Set<LaneKey>
    ) -> (lanes: [LaneKey], postponed: [(lane: LaneKey, until: Timestamp)]) {
        var lanes: [LaneKey] = []
        var postponed: [(lane: LaneKey, until: Timestamp)] = []
        var probed: Set<UUID> = []
        for lane in due where !running.contains(lane) {
            let organization = lane.organization
            if !circuits.isOpen(organization) {
                lanes.append(lane)
            } else if circuits.waits(lane) == nil, probed.insert(organization).inserted {
                lanes.append(lane)
            } else {
                let until = circuits.waits(lane) ?? now()
                postponed.append((lane, until.adding(seconds: .random(in: 0.5...1.5))))
            }
        }
        return (lanes, postponed)
    }
}
