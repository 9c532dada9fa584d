/// The changes for an observer since it last read them.
package struct PendingChanges: Sendable, Hashable {
    /// Whether mutations or mappings of the lane were changed.
    package private(set) var lane = false
    /// The feed's position with something that the observer may see; nil: there is none.
    package private(set) var feed: Int64?

    package init() {}

    package var isEmpty: Bool { !lane && feed == nil }

    package mutating func laneChanged() { lane = true }

    package mutating func feedMoved(to position: Int64) { feed = max(feed ?? 0, position) }
}
