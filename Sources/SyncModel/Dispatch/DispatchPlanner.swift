public import FoundationEssentials

/// Decides about the mutation at the head of a lane. It does no I/O.
///
/// It decides whether the mutation's turn has come, and what the gateway sends (product rules 2, 6 and 8).
public struct DispatchPlanner: Sendable {
    public enum Decision: Sendable {
        /// Its turn has come.
        case run(Dispatch)
        /// It holds the lane until then.
        case hold(until: Timestamp)
        /// The mutation can never run unless it is changed.
        case fail(Outcome)
        /// It is in conflict with the feed, and no request is sent. `version` is the entity's, where the mutation gave
        /// way to it.
        case conflict(Outcome, version: Int64?)
    }

    /// The time that a lane waits in an organization without an upstream, in seconds.
    static let pauseWithoutUpstream: Double = 30

    /// The lease of lanes: requests time out well before it expires.
    let lease: LaneLease

    public init(leaseSeconds: Double) {
        lease = LaneLease(seconds: leaseSeconds)
    }

    /// - Parameter heldUntil: set while the upstream's circuit is open.
    public func decide(
        _ mutation: QueuedMutation,
        _ surroundings: LaneContext,
        now: Timestamp,
        heldUntil: Timestamp?
    ) -> Decision {
        let turn = DispatchDecision(mutation, surroundings, lease)
        do throws(Problem) {
            return try turn.decision(now: now, heldUntil: heldUntil)
        } catch {
            return .fail(turn.failure(error))
        }
    }
}

extension DispatchPlanner {
    /// The inputs of a turn's decision in addition to the mutation's row.
    public struct LaneContext: Sendable {
        public var lane: LaneKey
        /// The lease under which the lane runs.
        public var token: Int64
        /// When that lease expires.
        public var leasedUntil: Timestamp
        public var organization: Organization
        /// The type of the mutation's entity.
        public var type: EntityType
        /// Resolved mappings of the client ids that the mutation names.
        public var mappings: [UUID: [ResolvedID]]
        /// The feed's state of the entity: the basis of version checks and of If-Match.
        ///
        /// Used for the `base_version` check. Nil when the entity is not in the feed. The document may be missing where
        /// the mutation was made on exactly this version.
        public var entity: EntityState?
        /// The channels that the lane's user holds.
        public var access = ChannelAccess()

        public init(
            lane: LaneKey,
            token: Int64,
            leasedUntil: Timestamp,
            organization: Organization,
            type: EntityType,
            mappings: [UUID: [ResolvedID]],
            entity: EntityState?
        ) {
            self.lane = lane
            self.token = token
            self.leasedUntil = leasedUntil
            self.organization = organization
            self.type = type
            self.mappings = mappings
            self.entity = entity
        }

        /// The entity, where the mutation's user may see it.
        ///
        /// The gateway sends nothing of another user's private entity.
        var visibleEntity: EntityState? {
            entity.flatMap { $0.isVisible(to: lane.user, type.visibility, access) ? $0 : nil }
        }

        /// The permanent id of a mutation's entity.
        func serverID(of mutation: QueuedMutation) -> ServerID? {
            if mutation.operation == .create, type.isForwarded, type.idSpace.isServerGiven, mutation.override == nil {
                // not even when it met an existing entity
                return nil
            }
            let entity = mutation.entity
            if let id = entity.serverID { return id }
            guard mutation.operation != .create, let clientID = entity.clientID else { return nil }
            return mappings[clientID]?.first { $0.entityType == entity.type }?.serverID
        }

        /// Replaces the entity that was read with the locked one.
        ///
        /// The transaction may have changed it: it writes entities last, so the one that was read may be older.
        mutating func refreshEntity(of mutation: QueuedMutation, from entities: EntityTable) {
            guard mutation.operation != .create, let id = serverID(of: mutation) else { return }
            if let current = entities[EntityKey(type: type.name, id: id.text)] { entity = current }
        }

        /// Whether a mutation's base state may be changed by a parked edit from elsewhere.
        ///
        /// Then it waits until that edit is judged. A request that is sent again does not wait, because the edit itself
        /// may wait for its outcome.
        func mustWait(_ mutation: QueuedMutation, for waiting: Set<EntityKey>) -> Bool {
            guard !waiting.isEmpty, mutation.baseVersion != nil, !mutation.isOutcomeUnknown, type.isForwarded,
                let id = serverID(of: mutation)
            else { return false }
            return waiting.contains(EntityKey(type: type.name, id: id.text))
        }
    }

    /// The permanent id of a client id in one type.
    public struct ResolvedID: Sendable, Hashable {
        @Exact public var entityType: String
        public var serverID: ServerID

        public init(entityType: String, serverID: ServerID) {
            self.entityType = entityType
            self.serverID = serverID
        }
    }
}
