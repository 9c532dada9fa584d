import FoundationEssentials
import Glibc

/// The measured cost of organizations' jobs, in microseconds of committers' time.
///
/// It predicts the cost of a job from earlier jobs of its organization, and detects whether one organization takes a
/// large part of the time while others take little (``isCrowded``). Groups are kept short only in that case. If all
/// organizations take about the same time, large groups are best for all of them. The ledger counts time in
/// microseconds of work, so it needs no clock.
struct CostLedger: Sendable {
    /// The share of recent work from which an organization counts as busy.
    static let busyShare = 0.125
    /// Total recent work below which no organization counts as busy.
    ///
    /// Without this limit, the first job after a pause would be all of the recent work.
    static let leastUse = 250_000.0
    /// The amount of work over which measurements decay.
    static let memory = 1_000_000.0
    /// If no organization with a small share had a job during this amount of work, no such organization counts as
    /// present.
    static let presence = 2_000_000.0
    /// The maximum number of organizations in memory. Above it, the organizations with the least recent work are
    /// removed.
    static let capacity = 8_192
    /// The weight of a new measurement.
    private static let learning = 0.25
    /// The share of recent work from which the gateway measures an organization in separate groups.
    ///
    /// The share counts the work of all groups with jobs of the organization. Below this share, the difference between
    /// groups with and without the organization shows the cost of its jobs.
    private static let sharedBySuspects = 0.5
    /// The upper bound of ``fixed``: the longest time that a flush to disk is assumed to take.
    ///
    /// If even the fastest groups take longer, the cause is not the flush.
    private static let mostFixed = 5_000.0
    /// The assumed microseconds of a unit of work before the first measurement.
    private static let firstRate = 50.0
    /// The units of work that ``firstRate`` represents in the average, as if they had been measured.
    private static let firstUnits = 200.0
    /// The bounds of a measured rate, in microseconds for a unit of work.
    private static let rates = 1.0...20_000.0
    /// The work after which a sample of an organization's rate expires.
    ///
    /// A sample is a group that contains jobs of one organization only.
    private static let sampleLife = 2_000_000.0
    /// The number of groups from one sample to the next.
    ///
    /// It limits how much the samples delay the other organizations.
    private static let sampleInterval = 16

    private struct Account {
        /// The microseconds that a unit of work takes.
        var rate: Double
        /// Recent work, as of ``at``.
        var use = 0.0
        /// Recent work of all groups with jobs of the organization: an upper bound of ``use``.
        var sharedUse = 0.0
        var at: Double
        /// The ``clock`` when a group last contained only jobs of this organization.
        var sampledAt = -Double.infinity
    }

    private var accounts: [UUID: Account] = [:]
    /// All work so far.
    private var clock = 0.0
    /// All recent work.
    private var use = 0.0
    /// Recent measured work, and its units, of all organizations together.
    ///
    /// Their quotient is an average of measurements. It contains no predictions, which could otherwise reinforce
    /// themselves.
    private var recent = (time: 0.0, units: 0.0)
    /// The microseconds that a unit of work takes, over all organizations together.
    private var rate: Double {
        let average = (recent.time + Self.firstRate * Self.firstUnits) / (recent.units + Self.firstUnits)
        return min(max(average, Self.rates.lowerBound), Self.rates.upperBound)
    }
    /// The organizations with a large share of recent work, at most eight.
    private var busy: Set<UUID> = []
    /// The ``clock`` when an organization with a small share last had a job.
    private var quietAt = -Double.infinity
    /// The number of groups since the last sample.
    private var unsampled = 0
    /// The fixed work of a group: slightly above the shortest measured time.
    private(set) var fixed = 1_000.0

    /// Whether one organization takes a large part of the work while an organization with a small share is present.
    var isCrowded: Bool { !busy.isEmpty && clock - quietAt < Self.presence }

    func isBusy(_ organization: UUID) -> Bool { busy.contains(organization) }

    /// The expected work of a job, without the fixed part of its group.
    func cost(of item: FairGroupQueue.Item) -> Double {
        (accounts[item.lane.organization]?.rate ?? rate) * item.units
    }

    /// Whether the next group should be a sample, with jobs of only this organization.
    ///
    /// The time of a group does not show how long each of its jobs took. For this reason, an organization whose jobs
    /// are in most groups is measured alone, in at most one of ``sampleInterval`` groups.
    func needsSample(of organization: UUID) -> Bool {
        guard unsampled >= Self.sampleInterval, use >= Self.leastUse, let account = accounts[organization] else {
            return false
        }
        return clock - account.sampledAt >= Self.sampleLife && account.sharedUse >= use * Self.sharedBySuspects
    }

    /// Records that an organization has a job waiting.
    mutating func arrived(_ organization: UUID) {
        if !busy.isEmpty, !busy.contains(organization) { quietAt = clock }
    }

    /// Records the cost of a group.
    ///
    /// - Returns: for each organization, the expected cost of its jobs and its share of the measured time.
    mutating func measured(_ took: Double, of items: [FairGroupQueue.Item]) -> [UUID: (
        expected: Double, actual: Double
    )] {
        fixed = took < fixed ? took : min(fixed + (took - fixed) * 0.0001, Self.mostFixed)
        var costs: [UUID: (expected: Double, actual: Double)] = [:]
        var expected = 0.0
        for item in items {
            let cost = cost(of: item)
            costs[item.lane.organization, default: (0, 0)].expected += cost
            expected += cost
        }
        guard expected > 0 else { return [:] }
        // a prediction may not charge more than the group took
        let actual = max(took - fixed, min(expected / 64, took), 1)
        let decay = exp(-actual / Self.memory)
        clock += actual
        use = use * decay + actual
        recent.time = recent.time * decay + actual
        recent.units = recent.units * decay + items.reduce(0) { $0 + $1.units }
        let isSample = costs.count == 1
        unsampled = isSample ? 0 : unsampled + 1
        let known = isSample ? 0 : costs.reduce(0) { $0 + (isKnown($1.key) ? $1.value.expected : 0) }
        // the correction for organizations whose rate was not measured recently
        let rest = expected > known ? limited((actual - known) / (expected - known)) : 1
        for (organization, cost) in costs {
            let share = cost.expected / expected
            costs[organization]?.actual = actual * share
            var account = accounts[organization] ?? Account(rate: rate, at: clock)
            if isSample {
                account.rate *= 1 + (actual / expected - 1) * (isKnown(organization) ? 0.5 : 1)
                account.sampledAt = clock
            } else if !isKnown(organization) {
                account.rate *= 1 + (rest - 1) * Self.learning * share
            }
            account.rate = min(max(account.rate, Self.rates.lowerBound), Self.rates.upperBound)
            let sinceThen = exp((account.at - clock) / Self.memory)
            account.use = account.use * sinceThen + actual * share
            account.sharedUse = account.sharedUse * sinceThen + actual
            account.at = clock
            accounts[organization] = account
        }
        for organization in busy.union(costs.keys) { judge(organization) }
        if !busy.isEmpty, !busy.isSuperset(of: costs.keys) { quietAt = clock }
        forget()
        return costs
    }

    /// Whether an organization's rate was measured recently in a separate group.
    func isKnown(_ organization: UUID) -> Bool {
        accounts[organization].map { clock - $0.sampledAt < 2 * Self.sampleLife } ?? false
    }

    /// Limits a correction, so that a single group changes a rate by a factor of at most eight.
    private func limited(_ factor: Double) -> Double { min(max(factor, 0.125), 8) }

    private mutating func judge(_ organization: UUID) {
        guard let account = accounts[organization] else {
            busy.remove(organization)
            return
        }
        let ownUse = account.use * exp((account.at - clock) / Self.memory)
        if use >= Self.leastUse, ownUse >= use * Self.busyShare {
            busy.insert(organization)
        } else {
            busy.remove(organization)
        }
    }

    private mutating func forget() {
        guard accounts.count > Self.capacity else { return }
        let uses = accounts.mapValues { $0.use * exp(($0.at - clock) / Self.memory) }
        let middle = uses.values.sorted()[accounts.count / 2]
        accounts = accounts.filter { busy.contains($0.key) || uses[$0.key, default: 0] > middle }
    }
}

/// Orders organizations by cost: after a job, an organization waits until the others could have taken as much time.
///
/// Each organization becomes due at a moment, in microseconds of work. A job delays this moment by the job's cost. Each
/// round advances the present by one portion, and each organization that is due can take a job.
struct CostOrderedQueue: Sendable {
    /// The work that each round allows an organization.
    static let portion = 200.0
    /// The maximum number of organizations in memory.
    private static let capacity = 8_192

    private var present = 0.0
    private var due: [UUID: Double] = [:]

    func isDue(_ organization: UUID) -> Bool { due[organization].map { $0 <= present } ?? true }

    mutating func charge(_ organization: UUID, _ cost: Double) {
        due[organization] = max(due[organization] ?? present, present) + cost
        if due.count > Self.capacity { due = due.filter { $0.value > present } }
    }

    /// Corrects an organization's moment by the difference between actual and expected cost.
    mutating func correct(_ organization: UUID, by difference: Double) {
        guard let moment = due[organization] else { return }
        due[organization] = max(present - Self.portion, moment + difference)
    }

    /// Begins the next round in which at least one of these organizations is due.
    mutating func advance(for waiting: some Sequence<UUID>) {
        let next = waiting.map { due[$0] ?? present }.min() ?? present
        present = max(present + Self.portion, next)
    }
}
