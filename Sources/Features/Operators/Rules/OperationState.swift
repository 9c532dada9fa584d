import SyncModel

/// The state of an operation.
package enum OperationState: String, Sendable, Hashable, CaseIterable {
    /// Some gateway works on it, or is about to.
    case running
    /// An operator ended it; the mutations settled before stay settled.
    case cancelled
    /// It has processed all of its mutations.
    case done
    /// It was given up: one mutation after another could not be settled.
    case failed
}
