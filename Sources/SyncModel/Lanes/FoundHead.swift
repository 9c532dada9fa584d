public import Foundation

/// The first pending mutation of a lane, as found by a poll.
public enum FoundHead {
    /// No mutation is pending from the lane's head position on.
    case none
    /// A mutation, its type, resolved mappings of its client ids, and its entity.
    ///
    /// The entity is as stored: without the changes that the transaction has yet to write.
    case mutation(QueuedMutation, EntityType, [UUID: [DispatchPlanner.ResolvedID]], EntityState?)
    /// The mutation cannot be opened here.
    ///
    /// The outcome of the previous request is written all the same.
    case sealed(position: Int64, SealError)
}
