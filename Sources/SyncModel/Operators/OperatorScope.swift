/// The permissions of an operator's token. Each scope includes the scopes before it.
public enum OperatorScope: String, Sendable, Hashable, CaseIterable, Comparable {
    /// Reads all data except the content that users wrote.
    case read
    /// Settles stuck mutations, and reads the content that users wrote.
    case settle
    /// All permissions.
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
