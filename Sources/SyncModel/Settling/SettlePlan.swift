public import Foundation

/// Everything that settling changes in one transaction, decided; the store writes it in set-based SQL.
public struct SettlePlan: Sendable {
    /// The lane afterwards.
    public private(set) var lane: LaneState
    /// Mutations that run again.
    public private(set) var restarts: [MutationRestart] = []
    /// Mutations that are given up.
    public private(set) var discards: [MutationDiscard] = []
    /// Mutations that wait for something else, or for nothing, or in vain.
    public private(set) var releases: [MutationRelease] = []
    /// Mappings that change.
    public private(set) var mappings: [MappingChange] = []
    /// Whether that is all that was asked for. Otherwise the caller plans again once this is written: what depends on
    /// most goes first, so that every part leaves the lane in order.
    public internal(set) var isComplete = true

    /// Nothing yet.
    public init(_ lane: LaneState) {
        self.lane = lane
        self.lane.change()
    }

    /// Whether there is nothing to write.
    public var isEmpty: Bool { restarts.isEmpty && discards.isEmpty && releases.isEmpty }

    /// Lets a worker look at the lane, now that all is planned.
    public mutating func finish(now: Timestamp) {
        lane.wake(now: now)
    }

    /// Adds a mutation that runs again. A create that had failed makes its mapping pending again (product rule 10).
    public mutating func add(_ restart: MutationRestart) {
        settle(DependencyNode(restart.record), as: restart.status)
        restarts.append(restart)
        if let change = MappingChange(restart.record, restart.record.id, .pending) { mappings.append(change) }
    }

    /// Adds a mutation that is given up. The mapping of a create goes with it, unless the server's entity takes its
    /// place.
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

    /// Tells those who gave way what stands in the place of their mutations: by mutation, its problem object as JSON.
    public mutating func show(_ errors: [UUID: [UInt8]]) {
        for place in discards.indices {
            if let error = errors[discards[place].node.id] { discards[place].error = error }
        }
    }

    /// Adds a mutation whose dependencies change.
    mutating func add(_ release: MutationRelease) {
        settle(release.node, as: release.status)
        releases.append(release)
    }

    /// Of a move that does not exist nothing is counted, for it is not written.
    private mutating func settle(_ node: DependencyNode, as status: MutationStatus?) {
        if let status { lane.settle(node, as: status) }
    }
}
