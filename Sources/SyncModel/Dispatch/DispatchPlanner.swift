public import FoundationEssentials

/// Decides about the mutation at the head of a lane. This type does no I/O.
///
/// The planner decides whether the mutation may run now, and which request the gateway sends (product rules 2, 6 and
/// 8).
public struct DispatchPlanner: Sendable {
    public enum Decision: Sendable {
        /// The mutation's turn has come, so the mutation runs now.
        case run(Dispatch)
        /// The mutation and its lane must wait until this time.
        case hold(until: Timestamp)
        /// The mutation can never run without a change of its content.
        case fail(Outcome)
        /// The mutation is in conflict with the feed, and no request is sent.
        ///
        /// The `version` is the entity's version if `server_wins` discarded the mutation; otherwise nil.
        case conflict(Outcome, version: Int64?)
    }

    /// The time that a lane waits in an organization without an upstream, in seconds.
    static let pauseWithoutUpstream: Double = 30

    /// The length of lanes' leases. Requests time out well before a lease expires.
    let lease: LaneLease
    /// The maximum size, in bytes, of a body that is made from a route's template, or that becomes larger because
    /// server ids replace client ids.
    let bodyLimit: Int

    public init(leaseSeconds: Double, bodyLimit: Int = WorkBounds.madeBody) {
        lease = LaneLease(seconds: leaseSeconds)
        self.bodyLimit = bodyLimit
    }

    /// - Parameter heldUntil: the end of the circuit breaker's pause; nil if the upstream's circuit is closed.
    public func decide(
        _ mutation: QueuedMutation,
        _ surroundings: LaneContext,
        now: Timestamp,
        heldUntil: Timestamp?
    ) -> Decision {
        let turn = DispatchDecision(mutation, surroundings, by: self)
        do throws(Problem) {
            return try turn.decision(now: now, heldUntil: heldUntil)
        } catch {
            return .fail(turn.failure(error))
        }
    }
}

extension DispatchPlanner {
    /// The inputs of a decision, apart from the mutation's row.
    public struct LaneContext: Sendable {
        public var lane: LaneKey
        /// The token of the lease under which the lane runs.
        public var token: Int64
        /// When the lane's lease expires.
        public var leasedUntil: Timestamp
        public var organization: Organization
        /// The type of the mutation's entity.
        public var type: EntityType
        /// The resolved mappings of the client ids in the mutation.
        public var mappings: [UUID: [ResolvedID]]
        /// The entity's state in the feed, for the `base_version` check and for If-Match.
        ///
        /// Nil if the entity is not in the feed. The document may be omitted if the mutation's `base_version` is the
        /// entity's version.
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

        /// The entity, if the mutation's user may see it.
        ///
        /// This check ensures that no request contains an ETag or content of another user's private entity.
        var visibleEntity: EntityState? {
            entity.flatMap { $0.isVisible(to: lane.user, type.visibility, access) ? $0 : nil }
        }

        /// The permanent id of a mutation's entity.
        func serverID(of mutation: QueuedMutation) -> ServerID? {
            if mutation.operation == .create, type.isForwarded, type.idSpace.isServerGiven, mutation.override == nil {
                // the upstream assigns the id; until then a create has no id, even if it is in conflict with an
                // existing entity
                return nil
            }
            let entity = mutation.entity
            if let id = entity.serverID { return id }
            guard mutation.operation != .create, let clientID = entity.clientID else { return nil }
            return mappings[clientID]?.first { $0.entityType == entity.type }?.serverID
        }

        /// Replaces the entity by its state in memory, if this transaction locked the entity.
        ///
        /// The transaction may have changed the entity in memory, and writes entities last. Therefore the state that
        /// was read from the database may be older.
        mutating func refreshEntity(of mutation: QueuedMutation, from entities: EntityTable) {
            guard mutation.operation != .create, let id = serverID(of: mutation) else { return }
            if let current = entities[EntityKey(type: type.name, id: id.text)] { entity = current }
        }

        /// Whether the mutation must wait until a parked event about its entity is evaluated.
        ///
        /// The mutation waits because the event may change the state on which the mutation is based. A mutation with an
        /// unknown outcome does not wait, because the event may wait for this outcome.
        func mustWait(_ mutation: QueuedMutation, for waiting: Set<EntityKey>) -> Bool {
            guard !waiting.isEmpty, mutation.baseVersion != nil, !mutation.isOutcomeUnknown, type.isForwarded,
                let id = serverID(of: mutation)
            else { return false }
            return waiting.contains(EntityKey(type: type.name, id: id.text))
        }
    }

    /// The permanent id to which a client id of one entity type resolves.
    public struct ResolvedID: Sendable, Hashable {
        @Exact public var entityType: String
        public var serverID: ServerID

        public init(entityType: String, serverID: ServerID) {
            self.entityType = entityType
            self.serverID = serverID
        }
    }
}
