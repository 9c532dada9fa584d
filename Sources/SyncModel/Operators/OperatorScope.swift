/// The permissions of an operator's token. Each scope includes the earlier scopes in this list.
public enum OperatorScope: String, Sendable, Hashable, CaseIterable, Comparable {
    /// The right to read all data, except the content that users wrote.
    case read
    /// The right to settle mutations that wait for a person, and to read the content that users wrote.
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
