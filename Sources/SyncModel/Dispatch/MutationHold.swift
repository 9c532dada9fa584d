/// That the upstream answered a mutation's request in a way which may be the operator's trouble or the mutation's own
/// (product rule 11): 401, 407 or a redirect. It is sent again after a while, and spends no attempt.
public struct MutationHold: Sendable, Hashable {
    /// Such answers to this revision, one after another; 1 or more.
    public var count: Int16
    /// When the first of them came. What the upstream takes from others after this shows that it is the mutation's own.
    public var since: Timestamp

    /// Creates the value.
    public init(count: Int16, since: Timestamp) {
        self.count = count
        self.since = since
    }

    /// The same after one more such answer.
    static func next(after hold: MutationHold?, now: Timestamp) -> MutationHold {
        guard let hold else { return MutationHold(count: 1, since: now) }
        return MutationHold(count: hold.count == .max ? .max : hold.count + 1, since: hold.since)
    }
}
