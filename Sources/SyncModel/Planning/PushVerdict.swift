/// What became of one entry of a push.
public enum PushVerdict: Sendable {
    /// Accepted now; the record says how it stands at the end of the transaction.
    case accepted(MutationRecord)
    /// A repetition: the first outcome again.
    case replayed(MutationRecord)
    /// Not accepted.
    case rejected(Problem)
    /// A repetition of a rejected entry: the problem as it was stored, JSON.
    case rejectedBefore([UInt8])
}
