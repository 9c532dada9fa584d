/// The permissions of an operator's token. Each scope includes the ones before it.
public enum OperatorScope: String, Sendable, Hashable, CaseIterable, Comparable {
    /// Reads everything except what users wrote.
    case read
    /// Settles stuck mutations, and reads what users wrote.
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
