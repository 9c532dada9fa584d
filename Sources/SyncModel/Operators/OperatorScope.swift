/// What an operator's token is good for. Each scope is good for all that the ones before it are.
public enum OperatorScope: String, Sendable, Hashable, CaseIterable, Comparable {
    /// To look at everything but what users wrote.
    case read
    /// To settle what is stuck, and to look at what users wrote.
    case settle
    /// Everything.
    case admin

    public static func < (left: OperatorScope, right: OperatorScope) -> Bool { left.rank < right.rank }

    private var rank: Int {
        switch self {
        case .read: 0
        case .settle: 1
        case .admin: 2
        }
    }
}
