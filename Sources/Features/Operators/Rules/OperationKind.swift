/// What an operation does with each mutation that it is about.
public enum OperationKind: String, Sendable, Hashable, CaseIterable {
    case retry
    case discard
    case resolve
}
