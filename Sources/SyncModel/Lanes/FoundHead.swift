public import Foundation

/// The first pending mutation that a look at a lane found.
public enum FoundHead {
    /// No mutation is pending from the lane's head position on.
    case none
    /// A mutation, the type of its entity, resolved mappings of its client ids, and the entity as stored: without the
    /// changes that the transaction has yet to write.
    case mutation(QueuedMutation, EntityType, [UUID: [TurnPlanner.ResolvedID]], EntityState?)
    /// The mutation cannot be opened here; the outcome of the previous request is written all the same.
    case sealed(position: Int64, SealError)
}
