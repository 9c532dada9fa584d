import SyncModel

/// How an operation stands.
package enum OperationState: String, Sendable, Hashable, CaseIterable {
    /// Some gateway works on it, or is about to.
    case running
    /// An operator ended it; what was settled by then stays so.
    case cancelled
    /// It came to the end of what it is about.
    case done
    /// It was given up: one mutation after another could not be settled.
    case failed
}
