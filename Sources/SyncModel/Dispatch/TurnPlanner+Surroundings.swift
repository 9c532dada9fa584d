public import Foundation

extension TurnPlanner {
    /// What is known about the head besides its row.
    public struct Surroundings: Sendable {
        /// The lane.
        public var lane: LaneKey
        /// The lease that it runs under.
        public var token: Int64
        /// When that lease ends.
        public var leasedUntil: Timestamp
        /// The tenant.
        public var organization: Organization
        /// The type of the mutation's entity.
        public var type: EntityType
        /// Resolved mappings of the client ids that the mutation names.
        public var mappings: [UUID: [ResolvedID]]
        /// The entity that it changes, as the feed knows it: what a `base_version` is judged by, and If-Match is made of. Nil
        /// when the feed does not; without its document where the mutation was made on this very version.
        public var entity: EntityState?

        /// The entity, where it is the mutation's user's to see: of another's nothing is sent.
        var visibleEntity: EntityState? {
            entity.flatMap { $0.isVisible(to: lane.user, type.visibility) ? $0 : nil }
        }
    }

    /// Where a client id leads under one type.
    public struct ResolvedID: Sendable, Hashable {
        /// The type that the client id was created in.
        public var entityType: String
        /// The permanent id.
        public var serverID: ServerID

        /// Creates the value.
        public init(entityType: String, serverID: ServerID) {
            self.entityType = entityType
            self.serverID = serverID
        }
    }
}
