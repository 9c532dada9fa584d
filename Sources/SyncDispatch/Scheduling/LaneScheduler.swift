import DequeModule
import Foundation
import SyncModel

/// Decides which lane runs next: organizations in turn, with a cap on the running lanes of each and on all together.
///
/// A plain value; the dispatcher is its only owner. Lanes dropped for want of room are found again by polling.
struct LaneScheduler {
    /// Lanes of one organization that wait here at most; more stay in the database.
    static let waitingLimit = 1_000
    /// The cap of an organization without an upstream.
    static let defaultCap = 64
    /// The cap of an organization whose own is not known yet: its first lane reads it.
    static let unknownCap = 1

    private struct Tenant {
        var waiting: Deque<LaneKey> = []
        var running = 0
        var cap: Int
        /// Whether the database may hold more due lanes.
        var mayHaveMore = false
        /// Whether it stands in line for a turn.
        var isInLine = false

        var canRun: Bool { !waiting.isEmpty && running < cap }
        var isIdle: Bool { waiting.isEmpty && running == 0 && !mayHaveMore }
    }

    private enum Place {
        case waiting
        case running
        /// It runs, and was reported ready meanwhile: it is looked at once more.
        case runningAgain
    }

    private let capacity: Int
    private var tenants: [UUID: Tenant] = [:]
    private var line: Deque<UUID> = []
    private var places: [LaneKey: Place] = [:]
    /// Kept also for organizations that have nothing to run.
    private var caps: [UUID: Int] = [:]
    private(set) var runningCount = 0

    /// - Parameter capacity: lanes that run at the same time, over all organizations.
    init(capacity: Int) {
        self.capacity = capacity
    }

    /// Adds a due lane, unless it waits or runs already.
    mutating func add(_ lane: LaneKey) {
        switch places[lane] {
        case .waiting, .runningAgain: return
        case .running: places[lane] = .runningAgain
        case nil:
            var tenant = tenants[lane.organization] ?? newTenant(lane.organization)
            if tenant.waiting.count < Self.waitingLimit {
                tenant.waiting.append(lane)
                places[lane] = .waiting
            } else {
                tenant.mayHaveMore = true
            }
            enter(lane.organization, &tenant)
        }
    }

    /// Notes whether the database may hold more due lanes of an organization than were added.
    mutating func setMayHaveMore(_ organization: UUID, _ value: Bool) {
        guard value || tenants[organization] != nil else { return }
        var tenant = tenants[organization] ?? newTenant(organization)
        tenant.mayHaveMore = value
        tenants[organization] = tenant
        forgetIfIdle(organization)
    }

    /// Sets how many lanes of an organization may run at the same time.
    mutating func setCap(_ organization: UUID, _ cap: Int) {
        caps[organization] = max(1, cap)
        guard var tenant = tenants[organization] else { return }
        tenant.cap = max(1, cap)
        enter(organization, &tenant)
    }

    /// The next lane to run; nil when none may.
    mutating func next() -> LaneKey? {
        while runningCount < capacity, let organization = line.popFirst() {
            guard var tenant = tenants[organization] else { continue }
            tenant.isInLine = false
            guard tenant.running < tenant.cap, let lane = tenant.waiting.popFirst() else {
                tenants[organization] = tenant
                continue
            }
            tenant.running += 1
            runningCount += 1
            places[lane] = .running
            enter(organization, &tenant)
            return lane
        }
        return nil
    }

    /// Notes that a lane was given back.
    ///
    /// - Parameter isDue: whether it is to run again at once, behind the others.
    mutating func finish(_ lane: LaneKey, isDue: Bool) {
        guard let place = places.removeValue(forKey: lane), var tenant = tenants[lane.organization] else { return }
        tenant.running -= 1
        runningCount -= 1
        enter(lane.organization, &tenant)
        if isDue || place == .runningAgain { add(lane) }
        forgetIfIdle(lane.organization)
    }

    /// The organizations whose lanes should give their places away after a long run.
    struct Crowd {
        /// All places are taken, and lanes wait.
        var isEverybody = false
        /// Organizations with waiting lanes whose cap is reached.
        var organizations: Set<UUID> = []

        func includes(_ organization: UUID) -> Bool { isEverybody || organizations.contains(organization) }
    }

    var crowd: Crowd {
        if waitingCount == 0 { return Crowd() }
        if runningCount >= capacity, !line.isEmpty { return Crowd(isEverybody: true) }
        return Crowd(
            organizations: Set(
                tenants.filter { !$0.value.waiting.isEmpty && $0.value.running >= $0.value.cap }.map(\.key)
            )
        )
    }

    /// Whether more lanes are due than may run here: other replicas are told.
    var isFull: Bool { !line.isEmpty && runningCount >= capacity || tenants.values.contains { $0.mayHaveMore } }

    /// Organizations whose due lanes are known here: a search for others leaves them out.
    var occupied: [UUID] {
        tenants.filter { !$0.value.waiting.isEmpty || $0.value.running >= $0.value.cap }.map(\.key)
    }

    /// Organizations with room for more lanes than were added.
    var hungry: [(organization: UUID, room: Int)] {
        tenants.compactMap { organization, tenant in
            guard tenant.mayHaveMore, tenant.waiting.count < tenant.cap else { return nil }
            return (organization, min(Self.waitingLimit, 4 * tenant.cap))
        }
    }

    var running: Set<LaneKey> { Set(places.filter { $0.value != .waiting }.map(\.key)) }

    var waitingCount: Int { places.count - runningCount }

    private func newTenant(_ organization: UUID) -> Tenant { Tenant(cap: caps[organization] ?? Self.unknownCap) }

    private mutating func enter(_ organization: UUID, _ tenant: inout Tenant) {
        if tenant.canRun, !tenant.isInLine {
            tenant.isInLine = true
            line.append(organization)
        }
        tenants[organization] = tenant
    }

    private mutating func forgetIfIdle(_ organization: UUID) {
        if tenants[organization]?.isIdle == true { tenants[organization] = nil }
    }
}
