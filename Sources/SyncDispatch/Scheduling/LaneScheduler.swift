import DequeModule
import Foundation
import SyncModel

/// Which lane runs next: organizations in turn, each with a cap on its lanes that run, all together with another.
///
/// A plain value; the dispatcher is its only owner. What it forgets for want of room is found again by polling.
struct LaneScheduler {
    /// Lanes of one organization that wait here at most; more stay in the database.
    static let waitingLimit = 1_000
    /// The cap of an organization without an upstream.
    static let defaultCap = 64
    /// The cap of an organization that is not known yet: its first lane tells.
    static let unknownCap = 1

    private struct Tenant {
        var waiting: Deque<LaneKey> = []
        var running = 0
        var cap: Int
        /// Whether the database may hold more lanes that are due.
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
    /// Outlives a tenant that has nothing to run.
    private var caps: [UUID: Int] = [:]
    private(set) var runningCount = 0

    /// - Parameter capacity: lanes that run at the same time, over all organizations.
    init(capacity: Int) {
        self.capacity = capacity
    }

    /// Takes in a lane that is due. One that waits or runs already is not taken twice.
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

    /// Notes that the database may hold more due lanes of an organization than were taken in.
    mutating func setMayHaveMore(_ organization: UUID, _ value: Bool) {
        guard value || tenants[organization] != nil else { return }
        var tenant = tenants[organization] ?? newTenant(organization)
        tenant.mayHaveMore = value
        tenants[organization] = tenant
        forgetIfIdle(organization)
    }

    /// How many lanes of an organization may run at the same time.
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

    /// Whose lanes are to give their places away when they have run for long.
    struct Crowd {
        /// As many lanes run as may, and others wait.
        var isEverybody = false
        /// Organizations of which lanes wait while as many of their own run as may.
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

    /// Organizations that have room for more lanes than were taken in.
    var hungry: [(organization: UUID, room: Int)] {
        tenants.compactMap { organization, tenant in
            guard tenant.mayHaveMore, tenant.waiting.count < tenant.cap else { return nil }
            return (organization, min(Self.waitingLimit, 4 * tenant.cap))
        }
    }

    /// Lanes that run.
    var running: Set<LaneKey> { Set(places.filter { $0.value != .waiting }.map(\.key)) }

    /// Lanes that wait here.
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
