/// The lessons of a group's earlier tries.
package struct Certainty: Sendable {
    /// Whether to look up all keys, ids and watermarks.
    package var looksUpAll = false
    /// Whether organizations' data keys were read again after a value under an unknown one was met: then it stays
    /// closed.
    package var hasNewestKeys = false
    /// Whether heavy jobs may be done: the group has no other organization's jobs.
    package var takesHeavy = false
}
