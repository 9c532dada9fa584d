/// Is told that something it watches was changed. No data comes with the signal: the observer looks for itself, so a
/// lost signal costs time only. Called often and from any thread: it must be quick.
package protocol ChangeObserver: AnyObject, Sendable {
    /// Mutations or mappings of the lane were changed.
    func laneChanged()
    /// The feed has reached a position with something that the observer may see.
    func feedMoved(to position: Int64)
}
