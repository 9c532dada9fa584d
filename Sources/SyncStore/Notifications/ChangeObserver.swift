/// Who is told that something it has an interest in was changed. No data comes with it: the observer looks for itself, so
/// a signal that is lost costs time only. Called often and from any thread: it must be quick.
package protocol ChangeObserver: AnyObject, Sendable {
    /// Mutations or mappings of the lane were changed.
    func laneChanged()
    /// The feed has come so far with something that the observer may see.
    func feedMoved(to position: Int64)
}
