import Foundation
import SyncModel

/// The plans of all pushes of a group, made in sequence.
///
/// So each sees the effects of those before it on the organization's entities.
struct GroupPlan {
    /// For each push its plan, or the problem that refuses it.
    private(set) var outcomes: [Result<PushPlan, Problem>] = []
    /// Entities by organization, as the group leaves them.
    private(set) var entities: [UUID: EntityTable]
    /// The snapshot of each push.
    let snapshots: [PushSnapshot]
    /// Pushes that cannot be planned before every name in them is looked up.
    ///
    /// While there are any, the plan is discarded: later pushes in the group were planned without them.
    private(set) var incomplete: Set<Int> = []
    /// Pushes that take too much to be committed together with others. While there are any, the plan is discarded.
    private(set) var heavy: Set<Int> = []
    /// Light pushes whose documents were not read, because others left no room.
    private(set) var crowded: Set<Int> = []
    /// Pushes whose user's lane is missing, and was not made.
    private(set) var withoutLane: [Int] = []
    /// Whether a cached lane or device is missing.
    private(set) var lacksRemembered = false

    /// - Parameter isCertain: whether everything was looked up, and nothing taken from a cache.
    init(_ group: [PushJob], contexts: [PushPlanner.Context], snapshot: GroupSnapshot, isCertain: Bool) {
        entities = snapshot.entities
        snapshots = snapshot.pushes
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
            do throws(PushRefusal) {
                let plan = try PushPlanner.plan(
                    job.push,
                    snapshot: snapshot.pushes[index],
                    context: contexts[index],
                    entities: &entities[job.organization.id, default: EntityTable()]
                )
                outcomes.append(.success(plan))
            } catch {
                switch error {
                case .problem(let problem): outcomes.append(.failure(problem))
                case .needsProbe: incomplete.insert(index)
                case .requiresOwnBatch: heavy.insert(index)
                case .isCrowded: crowded.insert(index)
                }
            }
        }
    }

    /// A plan with its push's place in the group.
    typealias Placed = (index: Int, plan: PushPlan)

    /// Plans that change something.
    var changes: [Placed] {
        plans { $0.plan.changesAnything(from: snapshots[$0.index]) }
    }

    /// Plans that change nothing, but whose activity is to be recorded.
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
