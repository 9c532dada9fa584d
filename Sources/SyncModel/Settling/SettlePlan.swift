public import Foundation

/// A mutation that is to run again.
public struct MutationRestart: Sendable {
    /// The mutation as it stood.
    public let record: MutationRecord
    /// What must succeed first; empty for one that runs when its turn comes.
    public var dependsOn: [UUID] = []
    /// One more than it was where the upstream is to take it for another request (product rule 6).
    public var revision: Int32
    /// Whether the last request of this revision may have taken effect.
    public var isOutcomeUnknown: Bool
    /// Another endpoint; nil: as it was.
    public var endpoint: Endpoint?
    /// Another payload, JSON; nil: as it was.
    public var payload: [UInt8]?
    /// Client ids of the user in the content; nil: as they were.
    public var references: [ClientReference]?
    /// The device's own ids that have to be found when the mutation's turn comes.
    public var localIDs: [LocalID] = []
    /// Set where a person lets the client win; then the conflict stays in the error.
    public var resolution: ConflictResolution?
    /// What is sent in place of the mutation's own request.
    public var sent: SentRequest?
    /// The entity that a create is to go over, whose id an answer need not tell again; nil: as it was.
    public var serverID: ServerID?

    /// `pending`, or `blocked` while it waits for another.
    public var status: MutationStatus? { record.status.moved(to: dependsOn.isEmpty ? .pending : .blocked) }
}

/// A mutation that is given up.
public struct MutationDiscard: Sendable {
    /// The mutation as it stood.
    public let node: DependencyNode
    /// `server_wins` where the server's entity was adopted in its place; nil where a person gave it up.
    public var resolution: ConflictResolution?
    /// The adopted entity's id; nil: as it was.
    public var serverID: ServerID?
    /// The adopted entity's version; nil: as it was.
    public var version: Int64?
    /// The problem object with what stands in its place, JSON; nil: as it was.
    public var error: [UInt8]?
}

/// A mutation whose dependencies change because others are settled.
public struct MutationRelease: Sendable {
    /// The mutation as it stood.
    public let node: DependencyNode
    /// What it waits for now.
    public let dependsOn: [UUID]
    /// What it fails with; nil where it does not.
    public var problem: Problem?

    /// Where it stands now: one that waited, and has nothing more to wait for, runs.
    public var status: MutationStatus? {
        guard node.status == .blocked || node.status == .pending else { return node.status }
        return node.status.moved(to: problem != nil ? .failed : dependsOn.isEmpty ? .pending : .blocked)
    }
}

/// A mapping that changes with its create; or where a device's own id leads, that the client id stands for.
public struct MappingChange: Sendable, Hashable {
    /// The entity's type.
    public let entityType: String
    /// What its client calls the entity.
    public let client: ClientName
    /// The create that the mapping belongs to: one that another create has taken over stays as it is.
    public let mutationID: UUID
    /// Where it stands now.
    public let status: IDMapping.Status
    /// The permanent id, of one that is resolved.
    public var serverID: ServerID?
    /// Why it failed.
    public var lastError: String?

    /// The temporary id, or what stands for a device's own.
    public var clientID: UUID { client.id }

    /// Whether it stands for a device's own id.
    public var isLocal: Bool { client.number != nil }

    /// - Returns: nil for what is no create, and for a create that has no mapping.
    init?(
        _ write: some EntityWrite,
        _ mutationID: UUID,
        _ status: IDMapping.Status,
        _ serverID: ServerID? = nil,
        lastError: String? = nil
    ) {
        guard write.operation == .create, let client = write.entity.client else { return nil }
        entityType = write.entity.type
        self.client = client
        self.mutationID = mutationID
        self.status = status
        self.serverID = serverID
        self.lastError = lastError
    }
}

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
