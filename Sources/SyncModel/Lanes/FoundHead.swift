public import Foundation

/// What a look at a lane found to be pending first.
public enum FoundHead {
    /// Nothing is, from the position on at which the lane points.
    case none
    /// A mutation, the type of its entity, resolved mappings of the client ids that it names, and the entity as the feed
    /// knows it.
    case mutation(QueuedMutation, EntityType, [UUID: [TurnPlanner.ResolvedID]], EntityState?)
    /// It stands there and cannot be opened here: what came of the request before is written all the same.
    case sealed(position: Int64, SealError)
}
