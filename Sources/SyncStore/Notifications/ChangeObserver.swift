/// Receives a signal when something that it watches was changed.
///
/// The signal has no data: the observer reads the change itself, so a lost signal costs time only. Called often and
/// from any thread: it must be quick.
package protocol ChangeObserver: AnyObject, Sendable {
    /// Mutations or mappings of the lane were changed.
    func laneChanged()
    /// The feed has reached a position with something that the observer may see.
    func feedMoved(to position: Int64)
}
