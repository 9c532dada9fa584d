package import Foundation

/// What a look at a lane found to be pending first.
package enum FoundHead {
    /// Nothing is, from the position on at which the lane points.
    case none
    case mutation(Queued)
    /// It stands there and cannot be opened here: what came of the request before is written all the same.
    case sealed(position: Int64, SealError)

    /// A mutation, and what is known about it besides its row.
    package struct Queued {
        package let mutation: QueuedMutation
        /// The type of its entity.
        package let type: EntityType
        /// Resolved mappings of the client ids that it names.
        package let mappings: [UUID: [TurnPlanner.ResolvedID]]
        /// The entity as the feed knows it; nil when it does not.
        package let entity: TurnPlanner.KnownEntity?

        /// Creates the value.
        package init(
            _ mutation: QueuedMutation,
            type: EntityType,
            mappings: [UUID: [TurnPlanner.ResolvedID]] = [:],
            entity: TurnPlanner.KnownEntity? = nil
        ) {
            self.mutation = mutation
            self.type = type
            self.mappings = mappings
            self.entity = entity
        }
    }

    var position: Int64? {
        switch self {
        case .none: nil
        case .mutation(let found): found.mutation.position
        case .sealed(let position, _): position
        }
    }
}
