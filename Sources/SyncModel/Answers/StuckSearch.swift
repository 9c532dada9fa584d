public import Foundation

/// Finds blocked mutations that are settled all the same: what they wait for, directly or through others, has failed or
/// is in conflict, so that nothing but a person moves them.
///
/// Starts from some mutations, says which others have to be known, and takes them in; looks at each dependency once,
/// however many mutations share it. What it is not told counts as not settled. Pure.
public struct StuckSearch: Sendable {
    /// A mutation on the way from those that are asked about to what they wait for.
    public struct Step: Sendable {
        public let id: UUID
        /// Where it stands.
        public let status: MutationStatus
        /// Place in the lane.
        public let position: Int64
        /// The entity that it writes.
        public let entity: EntityName
        /// Mutations that it waits for, while it is blocked.
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

    /// One of the names of an entity.
    private enum Name: Hashable {
        case client(String, UUID)
        case server(String, ServerID)
    }

    private var steps: [UUID: Step] = [:]
    /// Of entities that something of them failed or is in conflict, without our knowing a way there: where the first of
    /// that stands in the lane.
    private var troubles: [Name: Int64] = [:]
    private let asked: Set<UUID>

    /// - Parameter records: mutations of one lane. The blocked ones are asked about.
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

    /// Mutations that blocked ones wait for and that are not known yet, each once.
    public var unknown: [UUID] {
        var seen: Set<UUID> = []
        var unknown: [UUID] = []
        for step in steps.values {
            for id in step.dependsOn where steps[id] == nil && seen.insert(id).inserted { unknown.append(id) }
        }
        return unknown
    }

    /// Takes in mutations that blocked ones wait for; what was known before stays.
    public mutating func add(_ found: [Step]) {
        for step in found where steps[step.id] == nil { steps[step.id] = step }
    }

    /// Takes in failed and conflicting mutations of the lane, where the ways to them are too long to go: a mutation waits
    /// for all earlier ones of its entity (product rule 3), so that one of these is enough.
    public mutating func add(troubled found: [Step]) {
        for step in found where step.isTrouble {
            for name in Self.names(of: step.entity) {
                troubles[name] = min(troubles[name] ?? step.position, step.position)
            }
        }
    }

    /// Whether all that is asked about is stuck, as far as it is known: then more knowledge changes nothing.
    public var isDecided: Bool { stuck.count == asked.count }

    /// The stuck ones among those that are asked about.
    public var stuck: Set<UUID> {
        var dependants: [UUID: [UUID]] = [:]
        for step in steps.values {
            for id in step.dependsOn { dependants[id, default: []].append(step.id) }
        }
        var reached: Set<UUID> = []
        var next = steps.values.filter { $0.isTrouble || isBehindTrouble($0) }.map(\.id)
        while let id = next.popLast() {
            guard reached.insert(id).inserted else { continue }
            next += dependants[id] ?? []
        }
        return reached.intersection(asked)
    }

    private func isBehindTrouble(_ step: Step) -> Bool {
        guard step.status == .blocked, !troubles.isEmpty else { return false }
        return Self.names(of: step.entity).contains { name in troubles[name].map { $0 < step.position } ?? false }
    }

    private static func names(of entity: EntityName) -> [Name] {
        [entity.clientID.map { .client(entity.type, $0) }, entity.serverID.map { .server(entity.type, $0) }]
            .compactMap { $0 }
    }
}
