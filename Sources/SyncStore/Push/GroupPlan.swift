import FoundationEssentials
import Postgres
import SyncModel

/// The plans of all pushes of a group.
///
/// The plans are made in sequence, and each includes the effects of earlier plans on the organization's entities.
struct GroupPlan {
    /// The plan of each push, or the problem that refuses it.
    private(set) var outcomes: [Result<PushPlan, Problem>] = []
    /// The entities by organization, in their state after the group.
    private(set) var entities: [UUID: EntityTable]
    /// The snapshot of each push.
    let snapshots: [PushSnapshot]
    /// Pushes whose keys and ids must all be looked up before they can be planned.
    ///
    /// If there are any such pushes, the plan is discarded, because the plans of later pushes lack the effects of these
    /// pushes.
    private(set) var incomplete: Set<Int> = []
    /// Pushes with too much work to share a group. If there are any such pushes, the plan is discarded.
    private(set) var heavy: Set<Int> = []
    /// Light pushes for which other pushes left no room in the transaction.
    ///
    /// Either their documents were not read, or the group would change too many grants or too many channels of entities
    /// (``WorkBounds/groupGrants``, ``WorkBounds/groupStays``).
    private(set) var crowded: Set<Int> = []
    /// Entities whose documents have to be read before the plan is made again.
    ///
    /// The group then has only one push, and a grant in this push made the entities visible to the user.
    private(set) var neededDocuments: [EntityKey] = []
    /// Pushes whose user's lane is missing and was not created.
    private(set) var withoutLane: [Int] = []
    /// Whether a cached lane or device no longer exists.
    private(set) var lacksRemembered = false

    /// - Parameter isCertain: whether everything was looked up in the database and nothing came from a cache.
    init(_ group: [PushJob], contexts: [PushPlanner.Context], snapshot: GroupSnapshot, isCertain: Bool) {
        entities = snapshot.entities
        snapshots = snapshot.pushes
        var changes = ChannelChanges()
        for (index, job) in group.enumerated() {
            let isRead = snapshot.hasLane[index] && snapshot.pushes[index].isDeviceRead
            if !isRead, !isCertain {
                lacksRemembered = true
                return
            }
            guard snapshot.hasLane[index] else {
                withoutLane.append(index)
                outcomes.append(.failure(Problem(.organizationUnknown, "the organization does not accept pushes")))
                continue
            }
            let before = entities[job.organization.id]?.channelChanges ?? ChannelChanges()
            do throws(PushRefusal) {
                let plan = try PushPlanner.plan(
                    job.push,
                    snapshot: snapshot.pushes[index],
                    context: contexts[index],
                    entities: &entities[job.organization.id, default: EntityTable()]
                )
                outcomes.append(.success(plan))
                let own = (entities[job.organization.id]?.channelChanges ?? ChannelChanges()) - before
                changes += own
                if group.count > 1, own != ChannelChanges(), changes.exceedGroup { crowded.insert(index) }
            } catch {
                switch error {
                case .problem(let problem): outcomes.append(.failure(problem))
                case .needsProbe: incomplete.insert(index)
                case .requiresOwnBatch: heavy.insert(index)
                case .isCrowded: crowded.insert(index)
                case .needsDocuments(let keys):
                    heavy.insert(index)
                    neededDocuments = keys
                }
            }
        }
    }

    /// A plan with the index of its push in the group.
    typealias Placed = (index: Int, plan: PushPlan)

    /// The plans that change something.
    var changes: [Placed] {
        plans { $0.plan.changesAnything(from: snapshots[$0.index]) }
    }

    /// The plans that change nothing, but for which the activity of the device has to be recorded.
    func lastSeenUpdates(at now: Timestamp) -> [Placed] {
        plans {
            snapshots[$0.index].shouldRecordLastSeen(at: now) && !$0.plan.changesAnything(from: snapshots[$0.index])
        }
    }

    private func plans(where isIncluded: (Placed) -> Bool) -> [Placed] {
        outcomes.enumerated().compactMap { index, outcome in
            guard case .success(let plan) = outcome, isIncluded((index, plan)) else { return nil }
            return (index, plan)
        }
    }
}

/// The data for the plans of a group, read under the group's locks.
struct GroupSnapshot {
    /// The snapshots of the pushes, in their order.
    var pushes: [PushSnapshot]
    /// Whether each push's lane exists.
    ///
    /// A lane is missing if its organization is no longer active.
    var hasLane: [Bool]
    /// The entities, by organization.
    var entities: [UUID: EntityTable] = [:]
    /// The mappings that the group names, each with the time of its last recorded use.
    var mappingUses: [MappingUse] = []
    /// Local ids of each push that an unconfirmed pull may have assigned, with the UUIDs that represent these ids.
    ///
    /// Such a local id does not identify an entity yet.
    var unassigned: [Int: [LocalID: UUID]] = [:]
}

/// A row of the result of ``GroupStatements/mappings`` about one client id.
struct FoundMapping {
    /// The index, in the group, of the push that names the id.
    let push: Int
    let mapping: IDMapping
    /// The time at which the mapping's use was last recorded; nil if never.
    let usedAt: Timestamp?

    init(_ row: inout RowReader) throws {
        push = try row.push()
        let clientID: UUID = try row.read("client_id")
        mapping = IDMapping(
            entityType: try row.read("entity_type"),
            client: .id(clientID),
            serverID: try row.serverID(),
            status: try row.choice("status"),
            mutationID: try row.read("mutation_id"),
            isAbandoned: try row.read("is_abandoned")
        )
        usedAt = try row.read("last_used_at")
    }
}

/// A mapping that a push names.
package struct MappingUse {
    /// The minimum time between recorded uses: one day, in seconds (``GroupStatements/touchMappings``).
    package static let precision: Double = 86_400

    let push: Int
    let name: ClientReference
    /// The time at which a use was last recorded; nil if never.
    let notedAt: Timestamp?

    /// Whether the mapping's use has to be recorded again.
    func isChange(at now: Timestamp) -> Bool {
        guard let notedAt else { return true }
        return notedAt.adding(seconds: Self.precision) <= now
    }
}
