import SyncModel

/// What an operation does with each mutation that it is about.
package enum OperationKind: String, Sendable, Hashable, CaseIterable {
    case retry
    case discard
    case resolve
}
