public import FoundationEssentials
import JSONText

/// Decides the effects of discarding mutations (product rule 4). This type does no I/O.
///
/// The planner decides which dependants are also discarded, and for which mutations the kept dependants wait
/// afterwards.
public struct DiscardPlanner {
    /// Data about the kept mutations, which the store reads.
    public struct Knowledge: Sendable {
        /// The dependencies that are not satisfied yet (product rule 3), with their entities.
        public var unmet: [UUID: EntityName]
        /// The client ids that will never be resolved, by the id of the mutation that needs the client id.
        ///
        /// The create of the client id is one of the discarded mutations.
        public var lost: [UUID: UUID]

        public init(unmet: [UUID: EntityName] = [:], lost: [UUID: UUID] = [:]) {
            self.unmet = unmet
            self.lost = lost
        }
    }

    private let subjects: [UUID: DependencyNode]
    private let choice: DependantsChoice?
    private let limit: Int
    private let all: [DependencyNode]
    private let direct: [DependencyNode]

    /// - Parameters:
    ///   - subjects: the mutations to discard.
    ///   - graph: all dependants in the lane.
    ///   - choice: the treatment of dependants. If nil, discarding mutations that have dependants is refused.
    ///   - limit: the maximum number of mutations that one plan changes.
    /// - Throws: `status_transition_must_be_valid`; `validation_failed` if the choice is missing.
    public init(
        _ subjects: [SettleSubject],
        graph: DependencyGraph,
        choice: DependantsChoice?,
        limit: Int
    ) throws(Problem) {
        for subject in subjects { try subject.require(Self.statuses, to: "discard") }
        self.subjects = Dictionary(subjects.map { ($0.record.id, DependencyNode($0.record)) }) { first, _ in first }
        self.choice = choice
        self.limit = limit
        let ids = Set(self.subjects.keys)
        all = graph.all(of: ids).filter { Self.statuses.contains($0.status) }
        direct = choice == .keep ? graph.direct(of: ids) : []
        guard choice == nil, !all.isEmpty else { return }
        let mutations = all.count == 1 ? "1 mutation depends" : "\(all.count) mutations depend"
        let detail = "\(mutations) on this one; dependents is required: discard or keep"
        throw Problem(.validationFailed, pointer: "/dependents", rule: Rule.required, detail)
    }

    /// The statuses of mutations that can be discarded.
    ///
    /// A mutation in flight cannot be discarded, because it may take effect. A final mutation cannot be discarded,
    /// because it already has its outcome.
    public static let statuses: [MutationStatus] = [.pending, .blocked, .failed, .conflict]

    /// The kept mutations that this plan changes. The caller reads the ``Knowledge`` about these mutations.
    public var kept: [DependencyNode] { choice == .keep ? Array(direct.prefix(limit)) : [] }

    /// All dependencies of the kept and the discarded mutations.
    public var dependencies: [UUID] {
        Array(Set(kept.flatMap(\.dependsOn)).union(subjects.values.flatMap(\.dependsOn)).subtracting(subjects.keys))
    }

    /// The client ids that the discarded mutations would have resolved.
    public var lostReferences: [ClientReference] { subjects.values.compactMap(\.created) }

    /// Adds the discards, and the changes of kept mutations, to a plan.
    ///
    /// - Parameter discards: the maximum number of mutations to discard; nil if only the limit applies.
    public func plan(_ knowledge: Knowledge, discards: Int? = nil, into plan: inout SettlePlan) {
        let limit = min(limit, max(1, discards ?? limit))
        for node in kept { plan.add(release(node, knowledge)) }
        if choice == .keep, direct.count > self.limit {
            plan.isComplete = false
            return
        }
        let doomed = subjects.values.sorted { $0.position < $1.position } + (choice == .keep ? [] : all)
        // the last mutations of the list can be discarded first, because each mutation precedes all of its dependants
        for node in doomed.suffix(limit) { plan.add(MutationDiscard(node: node)) }
        plan.isComplete = doomed.count <= limit
    }

    private func release(_ node: DependencyNode, _ knowledge: Knowledge) -> MutationRelease {
        var release = MutationRelease(node: node, dependsOn: remaining(node, knowledge))
        if let lost = knowledge.lost[node.id] {
            let words = subjects.values.first { $0.entity.clientID == lost }?.entity.words
            let name = words ?? "client id \(lost.lowercased)"
            let detail = "the mutation needs \(name), whose create was discarded"
            release.problem = Problem(.dependencyRejected, detail)
        }
        return release
    }

    /// Returns the mutations for which a kept mutation still waits.
    ///
    /// The kept mutation no longer depends on the discarded mutation. If the discarded mutation waited for an earlier
    /// mutation of the same entity, the kept mutation must wait for this earlier mutation (product rule 3).
    private func remaining(_ node: DependencyNode, _ knowledge: Knowledge) -> [UUID] {
        var remaining: [UUID] = []
        var visited: Set<UUID> = []
        var stack = Array(node.dependsOn.reversed())
        while let id = stack.popLast() {
            guard visited.insert(id).inserted else { continue }
            if let subject = subjects[id] {
                guard subject.entity.isSame(as: node.entity) else { continue }
                stack += subject.dependsOn.reversed().filter { inherited in
                    let entity = subjects[inherited]?.entity ?? knowledge.unmet[inherited]
                    return entity?.isSame(as: node.entity) ?? false
                }
            } else if knowledge.unmet[id] != nil {
                remaining.append(id)
            }
        }
        return remaining
    }
}

/// A mutation to discard.
public struct MutationDiscard: Sendable {
    /// The mutation before the change.
    public let node: DependencyNode
    /// `server_wins` if the server's entity is adopted instead of the mutation.
    ///
    /// Nil if a person discards the mutation.
    public var resolution: ConflictResolution?
    /// The adopted entity's id; nil to leave the id unchanged.
    public var serverID: ServerID?
    /// The adopted entity's version; nil to leave the version unchanged.
    public var version: Int64?
    /// The problem object with the current entity, as JSON; nil to leave the problem unchanged.
    public var error: [UInt8]?
}
