package import SyncModel
package import SyncStore

extension URLQuery {
    /// The parameters of a list of mutations.
    package static let mutationFilter: Set = ["status", "device_id", "entity_type", "limit", "cursor"]

    /// The filter of a list of mutations, and its page.
    package func mutationFilter() throws(Problem) -> MutationFilter {
        MutationFilter(
            statuses: try statuses("status"),
            deviceID: try uuid("device_id"),
            entityType: try entityType("entity_type"),
            limit: try limit(default: 100),
            cursor: try text("cursor")
        )
    }

    /// Statuses of stored mutations, repeated or separated by commas: `rejected` is only in responses, never stored.
    package func statuses(_ name: String) throws(Problem) -> [MutationStatus] {
        let known = MutationStatus.allCases.filter { $0 != .rejected }
        var statuses: [MutationStatus] = []
        for word in list(name) {
            guard let status = known.first(where: { $0.rawValue == word }) else {
                let names = known.map(\.rawValue).joined(separator: ", ")
                throw URLQuery.invalid(name, "must be statuses of: \(names)")
            }
            statuses.append(status)
        }
        return statuses
    }

    /// Statuses of id mappings, repeated or separated by commas.
    package func mappingStatuses(_ name: String) throws(Problem) -> [IDMapping.Status] {
        var statuses: [IDMapping.Status] = []
        for word in list(name) {
            guard let status = IDMapping.Status(rawValue: word) else {
                let names = IDMapping.Status.allCases.map(\.rawValue).joined(separator: ", ")
                throw URLQuery.invalid(name, "must be statuses of: \(names)")
            }
            if !statuses.contains(status) { statuses.append(status) }
        }
        return statuses
    }
}
