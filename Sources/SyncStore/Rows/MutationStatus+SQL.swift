package import SyncModel

extension MutationStatus {
    /// SQL: this status, where the row `row` may change to it, else NULL.
    ///
    /// The column refuses NULL. For written values, never for a condition: no plan depends on it.
    func reached(from row: String) -> String {
        "CASE WHEN \(row).status IN (\(Self.list(Self.allCases.filter { $0.canBecome(self) }))) THEN '\(rawValue)' END"
    }

    /// SQL: the final statuses, between the parentheses of IN.
    static let finalList = list(allCases.filter(\.isFinal))

    /// SQL: the statuses that only a person changes, between the parentheses of IN.
    package static let stuckList = list(forAPerson)

    /// SQL: some statuses, between the parentheses of IN.
    package static func list(_ statuses: [MutationStatus]) -> String {
        statuses.map { "'\($0.rawValue)'" }.joined(separator: ", ")
    }
}
