/// The lessons of a group's earlier tries.
package struct RetryContext: Sendable {
    /// Whether to look up all keys, ids and watermarks.
    package var looksUpAll = false
    /// Whether data keys were read again after a value under an unknown one was met.
    ///
    /// Then the value stays closed.
    package var hasNewestKeys = false
    /// Whether heavy jobs may be done: the group has no other organization's jobs.
    package var takesHeavy = false
}
