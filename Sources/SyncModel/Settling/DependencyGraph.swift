public import FoundationEssentials

/// The dependencies among a lane's open mutations. A mutation is open if it is not final.
///
/// The methods use no recursion and visit each mutation once, because a lane may have a chain of a hundred thousand
/// dependencies.
public struct DependencyGraph: Sendable {
    private let nodes: [DependencyNode]
    /// The dependants of each mutation, as indices in `nodes`.
    private var dependants: [UUID: [Int]] = [:]

    /// - Parameter nodes: every open mutation that depends on other mutations.
    public init(_ nodes: [DependencyNode]) {
        self.nodes = nodes
        dependants.reserveCapacity(nodes.count)
        for (place, node) in nodes.enumerated() {
            for id in node.dependsOn { dependants[id, default: []].append(place) }
        }
    }

    /// The direct dependants of the given mutations, in lane order.
    ///
    /// The given mutations themselves are excluded.
    public func direct(of ids: Set<UUID>) -> [DependencyNode] {
        let places = Set(ids.flatMap { dependants[$0] ?? [] })
        return places.map { nodes[$0] }.filter { !ids.contains($0.id) }.sorted { $0.position < $1.position }
    }

    /// The direct and indirect dependants of the given mutations.
    ///
    /// Each dependant comes after all mutations on which it depends. The given mutations themselves are excluded.
    public func all(of ids: Set<UUID>) -> [DependencyNode] {
        var finished: [Int] = []
        var entered: Set<Int> = []
        // a mutation is added to `finished` after all of its dependants, and the result has the reverse order
        var stack = ids.flatMap { dependants[$0] ?? [] }.map { (place: $0, isDone: false) }
        while let (place, isDone) = stack.popLast() {
            if isDone {
                finished.append(place)
            } else if entered.insert(place).inserted {
                stack.append((place, true))
                for next in dependants[nodes[place].id] ?? [] where !entered.contains(next) {
                    stack.append((next, false))
                }
            }
        }
        return finished.reversed().map { nodes[$0] }.filter { !ids.contains($0.id) }
    }

    /// Returns the given mutations that no other mutation needs.
    ///
    /// A given mutation is excluded if a mutation that is not in the result depends on it. Therefore all direct and
    /// indirect dependencies of an excluded mutation are excluded, too. Each mutation is visited once.
    public func unneeded(among ids: Set<UUID>) -> Set<UUID> {
        var unneeded = ids
        var open: [UUID] = []
        for node in nodes where !ids.contains(node.id) { open += node.dependsOn.filter(ids.contains) }
        let places = Dictionary(nodes.enumerated().map { ($1.id, $0) }) { first, _ in first }
        while let id = open.popLast() {
            guard unneeded.remove(id) != nil, let place = places[id] else { continue }
            open += nodes[place].dependsOn.filter(unneeded.contains)
        }
        return unneeded
    }
}

/// An open mutation in the dependency graph.
public struct DependencyNode: EntityWrite, Sendable {
    public let id: UUID
    /// The mutation's position in the lane.
    public let position: Int64
    public let acceptedAt: Timestamp
    public let status: MutationStatus
    public let operation: Operation
    public let entity: EntityName
    /// The mutations that must succeed before this mutation. Some of them may already have succeeded.
    public let dependsOn: [UUID]

    public init(
        id: UUID,
        position: Int64,
        acceptedAt: Timestamp,
        status: MutationStatus,
        operation: Operation,
        entity: EntityName,
        dependsOn: [UUID]
    ) {
        self.id = id
        self.position = position
        self.acceptedAt = acceptedAt
        self.status = status
        self.operation = operation
        self.entity = entity
        self.dependsOn = dependsOn
    }

    init(_ record: MutationRecord) {
        self.init(
            id: record.id,
            position: record.position,
            acceptedAt: record.acceptedAt,
            status: record.status,
            operation: record.operation,
            entity: record.entity,
            dependsOn: record.dependsOn
        )
    }
}

/// The treatment of mutations that depend on a discarded mutation (product rule 4).
public enum DependantsChoice: String, Sendable, Hashable, CaseIterable {
    /// The dependants are discarded as well, together with their own dependants.
    case discard
    /// The dependants are kept, and no longer depend on the discarded mutation.
    ///
    /// If a dependant needs a client id that is now never resolved, the dependant fails.
    case keep
}
