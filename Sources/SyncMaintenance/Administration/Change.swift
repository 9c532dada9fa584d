/// What a member of a request says of a value.
package enum Change<Value: Sendable>: Sendable {
    /// Absent.
    case keep
    /// Null.
    case reset
    case set(Value)

    /// Changes a value.
    func apply(to value: inout Value, default initial: Value) {
        switch self {
        case .keep: break
        case .reset: value = initial
        case .set(let new): value = new
        }
    }
}
