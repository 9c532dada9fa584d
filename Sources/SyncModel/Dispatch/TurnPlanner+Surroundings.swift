package import Foundation

extension TurnPlanner {
    /// What is known about the head besides its row.
    package struct Surroundings: Sendable {
        /// The lane.
        package var lane: LaneKey
        /// The lease that it runs under.
        package var token: Int64
        /// When that lease ends.
        package var leasedUntil: Timestamp
        /// The tenant.
        package var organization: Organization
        /// The type of the mutation's entity.
        package var type: EntityType
        /// Resolved mappings of the client ids that the mutation names.
        package var mappings: [UUID: [ResolvedID]]
        /// The entity that it changes, as the feed knows it: what a `base_version` is judged by, and If-Match is made of. Nil
        /// when the feed does not; without its document where the mutation was made on this very version.
        package var entity: EntityState?

        /// The entity, where it is the mutation's user's to see: of another's nothing is sent.
        var visibleEntity: EntityState? {
            entity.flatMap { $0.isVisible(to: lane.user, type.visibility) ? $0 : nil }
        }
    }

    /// Where a client id leads under one type.
    package struct ResolvedID: Sendable, Hashable {
        /// The type that the client id was created in.
        package var entityType: String
        /// The permanent id.
        package var serverID: ServerID

        /// Creates the value.
        package init(entityType: String, serverID: ServerID) {
            self.entityType = entityType
            self.serverID = serverID
        }
    }
}
