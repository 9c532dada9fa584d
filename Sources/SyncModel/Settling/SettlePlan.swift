public import FoundationEssentials

/// All changes of one transaction that settles mutations.
///
/// The store writes these changes with set-based SQL.
public struct SettlePlan: Sendable {
    /// The lane after the changes.
    public private(set) var lane: LaneState
    public private(set) var restarts: [MutationRestart] = []
    public private(set) var discards: [MutationDiscard] = []
    /// The mutations whose dependencies change. Some of them can now run, and some fail because a dependency was
    /// discarded.
    public private(set) var releases: [MutationRelease] = []
    public private(set) var mappings: [MappingChange] = []
    /// The mutations whose back-off ends.
    public private(set) var due: [UUID] = []
    /// Whether the plan covers the whole request.
    ///
    /// If false, the caller writes this part and then plans again. Dependants are settled first, because the lane must
    /// be consistent after every part.
    public internal(set) var isComplete = true

    public init(_ lane: LaneState) {
        self.lane = lane
        self.lane.change()
    }

    public var isEmpty: Bool { restarts.isEmpty && discards.isEmpty && releases.isEmpty && due.isEmpty }

    /// Allows a worker to claim the lane immediately. The caller calls this method after all changes are planned.
    public mutating func finish(now: Timestamp) {
        lane.wake(now: now)
    }

    /// Adds a mutation that runs again. If the mutation is a create that failed, its mapping becomes pending again
    /// (product rule 10).
    public mutating func add(_ restart: MutationRestart) {
        settle(DependencyNode(restart.record), as: restart.status)
        restarts.append(restart)
        if let change = MappingChange(restart.record, restart.record.id, .pending) { mappings.append(change) }
    }

    /// Ends the back-off of a pending mutation.
    public mutating func endBackOff(of mutation: UUID) { due.append(mutation) }

    /// Adds a mutation to discard. The mapping of a create fails, except if the server's entity is adopted instead.
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

    /// Stores the current entities in the errors of discarded mutations, where clients read these entities.
    ///
    /// - Parameter errors: the problem object of each mutation, as JSON.
    public mutating func show(_ errors: [UUID: [UInt8]]) {
        for place in discards.indices {
            if let error = errors[discards[place].node.id] { discards[place].error = error }
        }
    }

    mutating func add(_ release: MutationRelease) {
        settle(release.node, as: release.status)
        releases.append(release)
    }

    /// Updates the lane's counts. If the status is nil, the transition is not valid and not written, and the counts do
    /// not change.
    private mutating func settle(_ node: DependencyNode, as status: MutationStatus?) {
        if let status { lane.settle(node, as: status) }
    }
}

/// A stored mutation that a person settles.
public struct SettleSubject: Sendable {
    public let record: MutationRecord
    public let endpoint: Endpoint?
    /// The payload as the client wrote it, in JSON.
    public let payload: [UInt8]?
    /// Whether the last request of the current revision may have taken effect although no answer arrived.
    public let isOutcomeUnknown: Bool
    public let type: EntityType
    /// The client ids in the mutation's content.
    public let references: References
    /// The channels that the mutation's user holds. They are read only for types with channels.
    public var access = ChannelAccess()

    public init(
        record: MutationRecord,
        endpoint: Endpoint?,
        payload: [UInt8]?,
        isOutcomeUnknown: Bool,
        type: EntityType,
        references: References = References()
    ) {
        self.record = record
        self.endpoint = endpoint
        self.payload = payload
        self.isOutcomeUnknown = isOutcomeUnknown
        self.type = type
        self.references = references
    }

    /// Whether the upstream's last answer was a success that does not identify the created entity.
    var hasTakenEffect: Bool {
        record.status == .failed && record.responseStatus.map { (200...299).contains($0) } ?? false
    }

    /// Whether a new idempotency key could make the mutation take effect twice (product rule 6).
    public var mayHaveTakenEffect: Bool { isOutcomeUnknown || hasTakenEffect }

    /// Throws 409 if the mutation has none of the given statuses.
    func require(_ statuses: [MutationStatus], to move: String) throws(Problem) {
        guard !statuses.contains(record.status) else { return }
        let names = statuses.map(\.rawValue).joined(separator: ", ")
        throw Problem(
            .statusTransitionMustBeValid,
            "the mutation is \(record.status.rawValue); to \(move) it, it must be one of: \(names)"
        )
    }
}

/// A change of the mapping that a create made for its client id; for a local id, the new server id.
///
/// A local id is an entity's number on one device. Its mapping has the UUID that represents the local id.
public struct MappingChange: Sendable, Hashable {
    @Exact public private(set) var entityType: String
    /// The client's id of the entity.
    public let client: ClientName
    /// The create that made the mapping.
    ///
    /// If another create has replaced the mapping since, the mapping is not changed.
    public let mutationID: UUID
    public let status: IDMapping.Status
    /// The permanent id; nil if the mapping is not resolved.
    public var serverID: ServerID?
    /// The reason why the mapping failed.
    public var lastError: String?

    /// The client id of the entity, or the UUID that represents its local id.
    public var clientID: UUID { client.id }

    /// Whether the mapping maps a local id.
    public var isLocal: Bool { client.number != nil }

    /// Creates a change; nil for a mutation that is not a create, and for a create without a mapping.
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
