import DequeModule
import FoundationEssentials
import SyncModel

/// Selects the next lane to run. Organizations take turns, and each has a limit of running lanes.
///
/// ``HostPlaces`` limits all lanes together. Organizations whose upstreams are slow have a separate queue, and the two
/// queues take turns. As a result, lanes with slow upstreams do not delay other lanes.
///
/// Only the dispatcher's loop uses this value. If lanes are dropped for lack of capacity, a later poll finds them
/// again.
struct LaneScheduler {
    /// The maximum number of waiting lanes of an organization. Further lanes remain in the database.
    static let waitingLimit = 1_000
    /// The limit of an organization without an upstream.
    static let defaultCap = 64
    /// The limit of an organization until its first lane has read the organization's own limit.
    static let unknownCap = 1
    /// The maximum number of organizations that a search for the next lane skips because they are at their limit.
    /// Skipped organizations move to the end of their queue.
    private static let scanLimit = 8_192

    private struct Tenant {
        var waiting: Deque<LaneKey> = []
        var running = 0
        var cap: Int
        /// Whether the database may have more due lanes.
        var mayHaveMore = false
        /// Whether the organization is in the queue for a turn.
        var isInLine = false

        var canRun: Bool { !waiting.isEmpty && running < cap }
        var isIdle: Bool { waiting.isEmpty && running == 0 && !mayHaveMore }
    }

    private enum Place {
        case waiting
        case running
        /// The lane is running. It was reported as ready after its run began, and must therefore run again.
        case runningAgain
    }

    private var tenants: [UUID: Tenant] = [:]
    /// Organizations that have lanes to run, except organizations with slow upstreams.
    private var line: Deque<UUID> = []
    /// Organizations with slow upstreams that have lanes to run.
    private var slowLine: Deque<UUID> = []
    private var isSlowLineNext = false
    private var places: [LaneKey: Place] = [:]
    /// The known limits, including those of organizations without lanes to run.
    private var caps: [UUID: Int] = [:]
    /// The lanes that run.
    private(set) var hosts: HostPlaces<LaneKey>
    /// Counts the running lanes and their requests.
    private let shares: LaneShares

    var runningCount: Int { hosts.count }

    /// - Parameters:
    ///   - capacity: the maximum number of lanes that work concurrently, over all organizations.
    ///   - requests: the maximum number of lanes that run concurrently, including lanes that await a response; nil for
    ///     the default.
    ///   - shares: counts the requests of lanes that have several requests in flight.
    init(capacity: Int, requests: Int? = nil, shares: LaneShares = LaneShares()) {
        self.shares = shares
        hosts = HostPlaces(HostPlaces.Limits(places: capacity, requests: requests))
    }

    /// Adds a due lane, unless it already waits or runs.
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

    /// Records whether the database may have more due lanes of an organization than were added.
    mutating func setMayHaveMore(_ organization: UUID, _ value: Bool) {
        guard value || tenants[organization] != nil else { return }
        var tenant = tenants[organization] ?? newTenant(organization)
        tenant.mayHaveMore = value
        tenants[organization] = tenant
        forgetIfIdle(organization)
    }

    /// Sets an organization's limit of running lanes.
    mutating func setCap(_ organization: UUID, _ cap: Int) {
        caps[organization] = max(1, cap)
        guard var tenant = tenants[organization] else { return }
        tenant.cap = max(1, cap)
        enter(organization, &tenant)
    }

    /// Returns the next lane to run; nil if no lane may run.
    mutating func next() -> LaneKey? {
        for _ in 0..<2 {
            isSlowLineNext.toggle()
            if let lane = next(isSlow: !isSlowLineNext) { return lane }
        }
        return nil
    }

    private mutating func next(isSlow: Bool) -> LaneKey? {
        var scanLimit = min(Self.scanLimit, isSlow ? slowLine.count : line.count)
        while scanLimit > 0, hosts.hasRoom(isSlow: isSlow),
            let organization = isSlow ? slowLine.popFirst() : line.popFirst()
        {
            scanLimit -= 1
            guard var tenant = tenants[organization] else { continue }
            tenant.isInLine = false
            let isInItsLine = (hosts.pace(of: organization) == .slow) == isSlow
            guard isInItsLine, tenant.canRun, hosts.mayTake(organization),
                shares.begin(organization, limit: tenant.cap), let lane = tenant.waiting.popFirst()
            else {
                // moves the organization to the end of its queue, or to the other queue
                enter(organization, &tenant)
                continue
            }
            tenant.running += 1
            hosts.take(lane, of: organization)
            places[lane] = .running
            enter(organization, &tenant)
            return lane
        }
        return nil
    }

    /// Applies an event of the dispatcher's ``HostClock``.
    mutating func apply(_ event: HostClock<LaneKey>.Event) { hosts.apply(event) }

    /// Records that a lane was released.
    ///
    /// - Parameter isDue: whether the lane must run again immediately, after the other lanes.
    mutating func finish(_ lane: LaneKey, isDue: Bool) {
        guard let place = places.removeValue(forKey: lane), var tenant = tenants[lane.organization] else { return }
        tenant.running -= 1
        hosts.release(lane)
        shares.end(lane.organization)
        enter(lane.organization, &tenant)
        if isDue || place == .runningAgain { add(lane) }
        forgetIfIdle(lane.organization)
    }

    /// The organizations whose lanes should release their places after a long run.
    struct Contention {
        /// Whether all organizations are included, because all places are taken while lanes wait.
        var includesAll = false
        /// The organizations that have reached their limit of lanes or of requests, and have further waiting lanes. If
        /// organizations with slow upstreams wait for places, the set also contains all organizations that have a slow
        /// upstream and running lanes.
        var organizations: Set<UUID> = []

        func includes(_ organization: UUID) -> Bool { includesAll || organizations.contains(organization) }
    }

    var contention: Contention {
        if waitingCount == 0 { return Contention() }
        if !line.isEmpty, !hosts.hasRoom(isSlow: false) { return Contention(includesAll: true) }
        let isSlowCrowded = !slowLine.isEmpty && !hosts.hasRoom(isSlow: true)
        let waiting = shares.waiting
        let crowded = tenants.filter { organization, tenant in
            !tenant.waiting.isEmpty && (tenant.running >= tenant.cap || waiting.contains(organization))
                || isSlowCrowded && tenant.running > 0 && hosts.pace(of: organization) == .slow
        }
        return Contention(organizations: Set(crowded.keys))
    }

    /// Whether more lanes are due than this replica can run. If so, the dispatcher notifies other replicas.
    var isFull: Bool {
        !line.isEmpty && !hosts.hasRoom(isSlow: false) || !slowLine.isEmpty && !hosts.hasRoom(isSlow: true)
            || tenants.values.contains { $0.mayHaveMore }
    }

    /// The organizations that a search over all organizations excludes, because enough of their due lanes are known.
    var occupied: [UUID] {
        tenants.filter { !$0.value.waiting.isEmpty || $0.value.running >= $0.value.cap }.map(\.key)
    }

    /// The organizations that can take more lanes than were added, with the number of lanes to search for.
    var searchable: [(organization: UUID, room: Int)] {
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
            if hosts.pace(of: organization) == .slow {
                slowLine.append(organization)
            } else {
                line.append(organization)
            }
        }
        tenants[organization] = tenant
    }

    private mutating func forgetIfIdle(_ organization: UUID) {
        if tenants[organization]?.isIdle == true { tenants[organization] = nil }
    }
}
