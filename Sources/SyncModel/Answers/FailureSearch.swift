public import FoundationEssentials

/// Finds blocked mutations that only a person can unblock.
///
/// Such a mutation is "stuck": it waits, directly or through other mutations, for a mutation that has failed or is in
/// conflict. A stuck mutation is treated as settled.
///
/// The search starts from given mutations. It needs further mutations, which ``unknown`` lists, and which the caller
/// adds with ``add(_:)``. A mutation that is not added is treated as not settled. The search visits each dependency
/// once, even if many mutations share the dependency. The search does no I/O.
public struct FailureSearch: Sendable {
    /// A mutation on a chain of dependencies that the search follows.
    public struct Step: Sendable {
        public let id: UUID
        public let status: MutationStatus
        public let position: Int64
        public let entity: EntityName
        /// The mutations for which this mutation waits while it is blocked.
        public let dependsOn: [UUID]

        public init(id: UUID, status: MutationStatus, position: Int64, entity: EntityName, dependsOn: [UUID]) {
            self.id = id
            self.status = status
            self.position = position
            self.entity = entity
            self.dependsOn = status == .blocked ? dependsOn : []
        }

        var isTrouble: Bool { status == .failed || status == .conflict }
    }

    /// An id of an entity, from the client or from the server.
    private enum Name: Hashable {
        case client(String, UUID)
        case server(String, ServerID)
    }

    private var steps: [UUID: Step] = [:]
    /// For each entity, the lowest lane position of a mutation that failed or is in conflict.
    ///
    /// These positions are used if the chain of dependencies to such a mutation is not known. The key is an id of the
    /// entity.
    private var troubles: [Name: Int64] = [:]
    private let asked: Set<UUID>

    /// - Parameter records: mutations of one lane. The search determines which of the blocked mutations are stuck.
    public init(_ records: [MutationRecord]) {
        asked = Set(records.lazy.filter { $0.status == .blocked }.map(\.id))
        for record in records {
            steps[record.id] = Step(
                id: record.id,
                status: record.status,
                position: record.position,
                entity: record.entity,
                dependsOn: record.dependsOn
            )
        }
    }

    /// The mutations for which a blocked mutation waits, and which are not known yet, without duplicates.
    public var unknown: [UUID] {
        var seen: Set<UUID> = []
        var unknown: [UUID] = []
        for step in steps.values {
            for id in step.dependsOn where steps[id] == nil && seen.insert(id).inserted { unknown.append(id) }
        }
        return unknown
    }

    /// Adds mutations for which blocked mutations wait. Mutations that are already known are not replaced.
    public mutating func add(_ found: [Step]) {
        for step in found where steps[step.id] == nil { steps[step.id] = step }
    }

    /// Adds mutations that failed or are in conflict, if the chains of dependencies to them are too long to follow.
    ///
    /// One such mutation of an entity is sufficient, because a mutation waits for all earlier mutations of its entity
    /// (product rule 3).
    public mutating func add(troubled found: [Step]) {
        for step in found where step.isTrouble {
            for name in Self.names(of: step.entity) {
                troubles[name] = min(troubles[name] ?? step.position, step.position)
            }
        }
    }

    /// Whether all of the given blocked mutations are known to be stuck.
    ///
    /// If true, further mutations would not change the result.
    public var isDecided: Bool { stuck.count == asked.count }

    /// The stuck mutations among the given blocked mutations.
    public var stuck: Set<UUID> {
        var dependants: [UUID: [UUID]] = [:]
        for step in steps.values {
            for id in step.dependsOn { dependants[id, default: []].append(step.id) }
        }
        var reached: Set<UUID> = []
        var next = steps.values.filter { $0.isTrouble || isBehindFailure($0) }.map(\.id)
        while let id = next.popLast() {
            guard reached.insert(id).inserted else { continue }
            next += dependants[id] ?? []
        }
        return reached.intersection(asked)
    }

    private func isBehindFailure(_ step: Step) -> Bool {
        guard step.status == .blocked, !troubles.isEmpty else { return false }
        return Self.names(of: step.entity).contains { name in troubles[name].map { $0 < step.position } ?? false }
    }

    private static func names(of entity: EntityName) -> [Name] {
        [entity.clientID.map { .client(entity.type, $0) }, entity.serverID.map { .server(entity.type, $0) }]
            .compactMap { $0 }
    }
}
