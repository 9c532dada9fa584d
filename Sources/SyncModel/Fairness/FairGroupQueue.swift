public import FoundationEssentials

/// The bounds of a group of jobs that are committed together.
public struct GroupLimits: Sendable {
    public var jobs = 64
    /// The maximum weight of all jobs. The weight of a push, for example, is the number of its mutations.
    public var weight = 1_000
    /// The maximum number of bytes of all jobs.
    public var bytes = 524_288
    /// The weight per worker above which another worker takes part.
    public var weightPerWorker = 400
    /// The weight above which a job is heavy.
    public var lightWeight = 200
    /// The number of bytes above which a job is heavy.
    public var lightBytes = 131_072
    /// The maximum duration of a group while the load is uneven, in microseconds.
    ///
    /// The load is uneven while one organization takes a large part of the time and others take little.
    public var cost = 10_000.0
    /// The duration above which a job of a busy organization is heavy while the load is uneven, in microseconds.
    public var lightCost = 2_500.0

    public init() {}

    /// Limits for steps of lanes (``LaneStep``), each of which takes little time.
    ///
    /// Groups of steps may be large, because most of the cost of a small group is caused by the partitions and indexes
    /// that the database opens.
    public static var lanes: GroupLimits {
        var limits = GroupLimits()
        limits.jobs = 256
        limits.weight = LaneStep.mostOutcomes
        limits.bytes = 4_194_304
        return limits
    }
}

/// A queue of jobs that several workers commit in groups.
///
/// Organizations take turns, and so do the users of each organization. A group contains at most one job of each lane.
/// Only one worker at a time works for an organization. Therefore two groups of one process never wait for each other's
/// locks.
///
/// If organizations are in shards, all jobs of a group are of one shard.
///
/// Each organization is assigned to a worker. Heavy jobs go to a separate worker, which has the highest number. The
/// reason is that a group takes as long as its heaviest job, and a small push should not wait for the megabytes of
/// another user.
///
/// Turns depend on the cost that committers measure (``CostLedger``, ``CostOrderedQueue``). While others wait, an
/// organization with jobs that take ten times as long gets a tenth of the turns.
///
/// While the load is uneven, three more rules apply. A group takes at most ``GroupLimits/cost``, long jobs of busy
/// organizations are heavy, and groups contain either jobs of busy organizations or jobs of other organizations.
public struct FairGroupQueue: Sendable {
    public struct Item: Sendable {
        public let ticket: Int
        public let lane: LaneKey
        public let weight: Int
        public let bytes: Int
        /// The shard of the job's organization; nil without shards. All jobs of a group are of one shard.
        public let shard: Int?

        /// The estimated work of the job, in units.
        var units: Double { Double(weight) + Double(bytes) / 4_096 }

        public init(ticket: Int, lane: LaneKey, weight: Int, bytes: Int, shard: Int? = nil) {
            self.ticket = ticket
            self.lane = lane
            self.weight = weight
            self.bytes = bytes
            self.shard = shard
        }
    }

    private struct Organization {
        /// The worker for the organization's light jobs.
        let worker: Int
        var line = RoundRobinQueue<UUID, Item>()
        /// The worker whose current group contains jobs of the organization; nil if there is no such worker.
        var workedAt: Int?
        /// The worker whose queue contains the organization, or was the last to contain it.
        var queuedAt: Int
        /// The shard of the organization, according to the last job that was added.
        var shard: Int?
    }

    /// A bound on one selection of jobs.
    ///
    /// A selection considers at most this number of users of an organization, and passes over at most this number of
    /// organizations.
    private static let scanLimit = 64

    private let limits: GroupLimits
    private let hasHeavyWorker: Bool
    private var organizations: [UUID: Organization] = [:]
    private var workers: [FIFOQueue<UUID>]
    private var shares: FairShares
    /// The organizations that have jobs in a worker's current group, by worker.
    private var atWork: [Int: [UUID]] = [:]
    /// The jobs of a worker's current group, by worker.
    private var inProgress: [Int: [Item]] = [:]
    private var ledger = CostLedger()
    private var turns: [CostOrderedQueue]
    /// The number of waiting jobs.
    public private(set) var count = 0

    /// - Parameters:
    ///   - workers: the number of workers, excluding the heavy worker.
    ///   - capacity: the maximum number of waiting jobs.
    public init(workers: Int, hasHeavyWorker: Bool, capacity: Int, limits: GroupLimits = GroupLimits()) {
        self.limits = limits
        self.hasHeavyWorker = hasHeavyWorker
        self.workers = Array(repeating: FIFOQueue(), count: workers + (hasHeavyWorker ? 1 : 0))
        turns = Array(repeating: CostOrderedQueue(), count: self.workers.count)
        shares = FairShares(whole: capacity)
    }

    /// Adds a job, if its user and its organization do not already have their share of waiting jobs.
    ///
    /// - Parameter worker: the worker to which the organization is assigned.
    /// - Returns: the worker to wake; -1 if no worker needs to be woken; nil if the job was not added.
    public mutating func add(_ item: Item, worker: Int) -> Int? {
        guard shares.mayTake(1, for: item.lane) else { return nil }
        shares.take(1, for: item.lane)
        count += 1
        let id = item.lane.organization
        ledger.arrived(id)
        let wasIdle = organizations[id] == nil
        organizations[id, default: Organization(worker: worker, queuedAt: worker)].line.append(item, of: item.lane.user)
        organizations[id]?.shard = item.shard
        return wasIdle ? queue(id) : -1
    }

    /// Returns a job of the current group to the queue, for the heavy worker.
    ///
    /// The heavy worker commits the job alone, after the current group is finished.
    ///
    /// - Returns: false if there is no heavy worker, or if the user or the organization already has its share of
    ///   waiting jobs.
    public mutating func deferToHeavyWorker(_ item: Item) -> Bool {
        let id = item.lane.organization
        guard hasHeavyWorker, let shard = organizations[id].map(\.shard), shares.mayTake(1, for: item.lane) else {
            return false
        }
        shares.take(1, for: item.lane)
        count += 1
        let bytes = max(item.bytes, limits.bytes, limits.lightBytes + 1)
        let heavy = Item(ticket: item.ticket, lane: item.lane, weight: item.weight, bytes: bytes, shard: shard)
        organizations[id]?.line.append(heavy, of: item.lane.user)
        return true
    }

    /// Returns the next group for a worker; empty if no job waits for this worker.
    ///
    /// No other worker takes jobs of the group's organizations until ``finish(at:took:)``.
    public mutating func take(at worker: Int) -> [Item] {
        let cost = ledger.isCrowded ? limits.cost - ledger.fixed : .infinity
        var group = Group(limits: limits, takesHeavy: isHeavy(worker), cost: max(cost, limits.cost / 4))
        var taken: [UUID] = []
        // the organizations without a job that fits into the group, in the order of the queue
        var passed: [UUID] = []
        // the number of organizations whose next job cannot be in this group
        var otherShards = 0
        // the organizations that are not due yet, because their last jobs were costly
        var owing: [UUID] = []
        var isSample = false
        // considers each organization once, in the order of turns
        while !group.isFull, passed.count < Self.scanLimit, let id = workers[worker].popFirst() {
            if !turns[worker].isDue(id) {
                owing.append(id)
            } else if add(of: id, to: &group, at: worker) {
                taken.append(id)
                isSample = taken.count == 1 && ledger.needsSample(of: id)
                if isSample { break }
            } else {
                if cannotJoin(id, in: group) { otherShards += 1 }
                passed.append(id)
            }
        }
        let areAllOffered = workers[worker].isEmpty
        workers[worker].prepend(passed)
        // further rounds fill the group
        if isSample {
            var others: [UUID] = []
            takeAgain(at: worker, &group, &taken, &others)
        } else if areAllOffered && passed.count == otherShards || group.items.isEmpty {
            takeAgain(at: worker, &group, &taken, &owing)
        }
        for id in owing { workers[worker].append(id) }
        atWork[worker] = taken
        inProgress[worker] = group.items
        return group.items
    }

    /// Takes further jobs of organizations, round by round.
    ///
    /// - Parameter owing: the organizations that are not due yet. An organization is moved to `taken` if the group
    ///   gets one of the organization's jobs.
    private mutating func takeAgain(at worker: Int, _ group: inout Group, _ taken: inout [UUID], _ owing: inout [UUID])
    {
        var again = taken + owing
        var isNew = Set(owing)
        while !group.isFull, !again.isEmpty {
            turns[worker].advance(for: again)
            var left: [UUID] = []
            for id in again {
                guard !group.isFull, turns[worker].isDue(id) else {
                    left.append(id)
                    continue
                }
                guard add(of: id, to: &group, at: worker) else { continue }
                if isNew.remove(id) != nil {
                    taken.append(id)
                    owing.removeAll { $0 == id }
                }
                left.append(id)
            }
            again = left
        }
    }

    private mutating func add(of id: UUID, to group: inout Group, at worker: Int) -> Bool {
        guard let item = next(of: id, &group) else { return false }
        let cost = ledger.cost(of: item)
        group.add(item, cost: cost)
        turns[worker].charge(id, cost)
        organizations[id]?.workedAt = worker
        return true
    }

    /// Ends the work on a worker's group.
    ///
    /// - Parameter took: the duration of the group in microseconds; nil if it was not measured.
    /// - Returns: the workers to wake.
    public mutating func finish(at worker: Int, took: Double? = nil) -> Set<Int> {
        let items = inProgress.removeValue(forKey: worker) ?? []
        if let took, !items.isEmpty {
            for (organization, cost) in ledger.measured(took, of: items) {
                turns[worker].correct(organization, by: cost.actual - cost.expected)
            }
        }
        var woken: Set<Int> = []
        for id in atWork.removeValue(forKey: worker) ?? [] {
            organizations[id]?.workedAt = nil
            if let place = queue(id) { woken.insert(place) }
        }
        return woken
    }

    public func isEmpty(at worker: Int) -> Bool { workers[worker].isEmpty }

    public mutating func remove(where fits: (Item) -> Bool) -> [Item] {
        var removed: [Item] = []
        for id in Array(organizations.keys) { removed += remove(of: id, where: fits) }
        return removed
    }

    /// Removes all jobs that wait for a worker.
    ///
    /// - Parameter organization: limits the removal to jobs of this organization's shard. If nil, or without shards,
    ///   all jobs are removed.
    public mutating func drain(at worker: Int, fromShardOf organization: UUID? = nil) -> [Item] {
        let shard = organization.map { organizations[$0]?.shard }
        var removed: [Item] = []
        for (id, other) in organizations where (other.workedAt ?? other.queuedAt) == worker {
            removed += remove(of: id) { shard == nil || shard == .some($0.shard) }
        }
        return removed
    }

    // MARK: - Steps

    private func isHeavy(_ worker: Int) -> Bool { hasHeavyWorker && worker == workers.count - 1 }

    /// Adds an organization to the queue of the worker for its next job, and returns the worker; nil if the
    /// organization has no job.
    private mutating func queue(_ id: UUID) -> Int? {
        guard let next = organizations[id]?.line.next, let own = organizations[id]?.worker else {
            organizations[id] = nil
            return nil
        }
        let place =
            hasHeavyWorker && (limits.isHeavy(next) || isCostly(next)) ? workers.count - 1 : lightWorker(of: id, own)
        organizations[id]?.queuedAt = place
        workers[place].append(id)
        return place
    }

    /// The worker for an organization's light jobs, which is its assigned worker or an idle worker.
    ///
    /// While the load is uneven, an idle worker takes the jobs of organizations with a small share of the work.
    /// Otherwise these jobs would wait for the group of a busy organization although another worker has nothing to do.
    private func lightWorker(of id: UUID, _ own: Int) -> Int {
        guard ledger.isCrowded, !ledger.isBusy(id), isOccupied(own) else { return own }
        return workers.indices.first { !isHeavy($0) && !isOccupied($0) } ?? own
    }

    /// Whether jobs wait for a worker, or are in its group.
    private func isOccupied(_ worker: Int) -> Bool { !workers[worker].isEmpty || inProgress[worker]?.isEmpty == false }

    /// Whether a job takes so long that short jobs should not wait for it.
    ///
    /// This is decided only by a rate that was measured in a separate group, because a wrong guess would make a short
    /// job wait for long jobs.
    private func isCostly(_ item: Item) -> Bool {
        let organization = item.lane.organization
        return ledger.isCrowded && ledger.isBusy(organization) && ledger.isKnown(organization)
            && ledger.cost(of: item) > limits.lightCost
    }

    /// Whether a group excludes an organization's next job, because of the job's shard or because of
    /// ``isApart(_:from:)``.
    private func cannotJoin(_ id: UUID, in group: Group) -> Bool {
        guard let next = organizations[id]?.line.next else { return false }
        return !group.isOfShard(next) || isApart(id, from: group)
    }

    /// Whether the load is uneven, and either the organization or the group's first organization is busy, but not both.
    private func isApart(_ id: UUID, from group: Group) -> Bool {
        guard ledger.isCrowded, let first = group.items.first?.lane.organization else { return false }
        return ledger.isBusy(first) != ledger.isBusy(id)
    }

    /// Removes and returns an organization's next job, if the job fits into the group.
    private mutating func next(of id: UUID, _ group: inout Group) -> Item? {
        guard !isApart(id, from: group), var organization = organizations.removeValue(forKey: id) else { return nil }
        defer { organizations[id] = organization }
        for _ in 0..<min(organization.line.ownerCount, Self.scanLimit) {
            guard let item = organization.line.next else { return nil }
            // only the heavy worker takes a heavy job
            if !group.takesHeavy, hasHeavyWorker, limits.isHeavy(item) { return nil }
            // the organization's first job in a group is accepted regardless of its cost
            if !group.takesHeavy, hasHeavyWorker, organization.workedAt != nil, isCostly(item) { return nil }
            if group.fits(item) {
                _ = organization.line.popNext()
                count -= 1
                shares.release(1, of: item.lane)
                return item
            }
            guard group.has(item.lane) else { return nil }
            organization.line.pass()
        }
        return nil
    }

    private mutating func remove(of id: UUID, where fits: (Item) -> Bool) -> [Item] {
        let removed = organizations[id]?.line.remove(where: fits) ?? []
        guard !removed.isEmpty else { return [] }
        count -= removed.count
        for item in removed { shares.release(1, of: item.lane) }
        guard let organization = organizations[id], organization.workedAt == nil else { return removed }
        // the organization leaves this queue, because its next job may be for another worker, or it may have no job
        // left
        _ = workers[organization.queuedAt].remove { $0 == id }
        _ = queue(id)
        return removed
    }
}

/// A group under construction.
private struct Group {
    let limits: GroupLimits
    let takesHeavy: Bool
    private(set) var items: [FairGroupQueue.Item] = []
    private var lanes: Set<LaneKey> = []
    private var weight = 0
    private var bytes = 0
    /// The expected duration of the group, in microseconds.
    private var cost = 0.0
    private let maximumCost: Double

    init(limits: GroupLimits, takesHeavy: Bool, cost: Double) {
        self.limits = limits
        self.takesHeavy = takesHeavy
        maximumCost = cost
    }

    var isFull: Bool {
        items.count >= limits.jobs || weight >= limits.weight || bytes >= limits.bytes || cost >= maximumCost
    }

    func has(_ lane: LaneKey) -> Bool { lanes.contains(lane) }

    /// Whether a job belongs to the group's shard. The first job determines the group's shard.
    func isOfShard(_ item: FairGroupQueue.Item) -> Bool { items.isEmpty || items[0].shard == item.shard }

    func fits(_ item: FairGroupQueue.Item) -> Bool {
        guard !lanes.contains(item.lane), isOfShard(item) else { return false }
        return items.isEmpty || weight + item.weight <= limits.weight && bytes + item.bytes <= limits.bytes
    }

    mutating func add(_ item: FairGroupQueue.Item, cost: Double) {
        items.append(item)
        lanes.insert(item.lane)
        weight += item.weight
        bytes += item.bytes
        self.cost += cost
    }
}

extension GroupLimits {
    fileprivate func isHeavy(_ item: FairGroupQueue.Item) -> Bool {
        item.weight > lightWeight || item.bytes > lightBytes
    }
}
