public import Foundation

/// All changes of settling in one transaction.
///
/// The store writes them in set-based SQL.
public struct SettlePlan: Sendable {
    /// The lane afterwards.
    public private(set) var lane: LaneState
    public private(set) var restarts: [MutationRestart] = []
    public private(set) var discards: [MutationDiscard] = []
    /// Mutations with new dependencies, without any left, or that fail for lack of one.
    public private(set) var releases: [MutationRelease] = []
    public private(set) var mappings: [MappingChange] = []
    /// Whether the plan covers the whole request. Otherwise the caller plans again once this part is written:
    /// dependants go first, so that every part leaves the lane consistent.
    public internal(set) var isComplete = true

    public init(_ lane: LaneState) {
        self.lane = lane
        self.lane.change()
    }

    public var isEmpty: Bool { restarts.isEmpty && discards.isEmpty && releases.isEmpty }

    /// Lets a worker poll the lane once everything is planned.
    public mutating func finish(now: Timestamp) {
        lane.wake(now: now)
    }

    /// Adds a mutation that runs again. A create that had failed makes its mapping pending again (product rule 10).
    public mutating func add(_ restart: MutationRestart) {
        settle(DependencyNode(restart.record), as: restart.status)
        restarts.append(restart)
        if let change = MappingChange(restart.record, restart.record.id, .pending) { mappings.append(change) }
    }

    /// Adds a mutation to discard. A create's mapping fails, unless the server's entity takes its place.
    mutating func add(_ discard: MutationDiscard) {
        settle(discard.node, as: discard.node.status.moved(to: .discarded))
        discards.append(discard)
        let serverID = discard.resolution == .serverWins ? discard.serverID : nil
        let change = MappingChange(
            discard.node,
            discard.node.id,
            serverID == nil ? .failed : .resolved,
            serverID,
            lastError: serverID == nil ? "its create was discarded" : nil
        )
        if let change { mappings.append(change) }
    }

    /// Shows the current entities to the clients of discarded mutations.
    ///
    /// `errors` has the problem object of each mutation, as JSON.
    public mutating func show(_ errors: [UUID: [UInt8]]) {
        for place in discards.indices {
            if let error = errors[discards[place].node.id] { discards[place].error = error }
        }
    }

    mutating func add(_ release: MutationRelease) {
        settle(release.node, as: release.status)
        releases.append(release)
    }

    /// An invalid transition is not counted, since it is not written.
    private mutating func settle(_ node: DependencyNode, as status: MutationStatus?) {
        if let status { lane.settle(node, as: status) }
    }
}
