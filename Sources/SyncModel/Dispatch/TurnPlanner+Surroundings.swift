public import Foundation

extension TurnPlanner {
    /// What a turn depends on besides the mutation's row.
    public struct Surroundings: Sendable {
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
        /// The feed's state of the entity that the mutation changes: the basis of the `base_version` check and of
        /// If-Match. Nil when the feed does not know the entity; without its document where the mutation was made on
        /// this very version.
        public var entity: EntityState?

        /// The entity, where the mutation's user may see it: the gateway sends nothing of another user's private
        /// entity.
        var visibleEntity: EntityState? {
            entity.flatMap { $0.isVisible(to: lane.user, type.visibility) ? $0 : nil }
        }
    }

    /// The permanent id of a client id in one type.
    public struct ResolvedID: Sendable, Hashable {
        public var entityType: String
        public var serverID: ServerID

        public init(entityType: String, serverID: ServerID) {
            self.entityType = entityType
            self.serverID = serverID
        }
    }
}
