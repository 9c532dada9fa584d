/// A request's change of a value.
package enum Change<Value: Sendable>: Sendable {
    /// The member is absent.
    case keep
    /// The member is null.
    case reset
    case set(Value)

    package func apply(to value: inout Value, default initial: Value) {
        switch self {
        case .keep: break
        case .reset: value = initial
        case .set(let new): value = new
        }
    }
}
