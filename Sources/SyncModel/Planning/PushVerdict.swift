/// The result of one entry of a push.
public enum PushVerdict: Sendable {
    /// Accepted by this push; the record shows its state at the end of the transaction.
    case accepted(MutationRecord)
    /// A replay: the first outcome again.
    case replayed(MutationRecord)
    /// Not accepted.
    case rejected(Problem)
    /// A replay of a rejected entry: the problem as it was stored, JSON.
    case rejectedBefore([UInt8])

    public var isReplayed: Bool { if case .replayed = self { true } else { false } }
}
