import SyncModel

extension Query {
    /// Statuses that a stored mutation can have, repeated or separated by commas: `rejected` is an answer, never stored.
    func statuses(_ name: String) throws(Problem) -> [MutationStatus] {
        let known = MutationStatus.allCases.filter { $0 != .rejected }
        var statuses: [MutationStatus] = []
        for word in list(name) {
            guard let status = known.first(where: { $0.rawValue == word }) else {
                let names = known.map(\.rawValue).joined(separator: ", ")
                throw Query.invalid(name, "must name statuses: \(names)")
            }
            statuses.append(status)
        }
        return statuses
    }
}
