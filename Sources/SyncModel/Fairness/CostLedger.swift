import FoundationEssentials
import Glibc

/// The measured cost of organizations' jobs, in microseconds of committers' time.
///
/// The ledger predicts the cost of a job from earlier jobs of its organization. It also detects whether one
/// organization takes a large part of the time while others take little (``isCrowded``). Only in this case are groups
/// (jobs that are committed together) kept short. If all organizations take about the same time, large groups are best
/// for all of them. The ledger needs no clock, because it measures time in microseconds of committers' work.
struct CostLedger: Sendable {
    /// An organization is busy if it has at least this share of recent work.
    static let busyShare = 0.125
    /// If the total recent work is below this value, no organization is busy.
    ///
    /// Without this limit, the organization of the first job after a pause would be busy, because no other organization
    /// would have recent work.
    static let leastUse = 250_000.0
    /// The amount of work after which an earlier measurement has decayed to 1/e of its weight.
    static let memory = 1_000_000.0
    /// The amount of work for which an organization with a small share is treated as present after its last job.
    static let presence = 2_000_000.0
    /// The maximum number of organizations in memory. If there are more, the organizations with the least recent work
    /// are removed.
    static let capacity = 8_192
    /// The weight of a new measurement.
    private static let learning = 0.25
    /// An organization is measured in separate groups if it has at least this share of recent work.
    ///
    /// The share includes the whole work of each group with jobs of the organization. An organization with a smaller
    /// share need not be measured separately, because the cost of its jobs follows from the difference between groups
    /// with and without such jobs.
    private static let sharedBySuspects = 0.5
    /// The upper bound of ``fixed``, which is the longest time that a flush to disk is assumed to take.
    ///
    /// If even the fastest groups take longer, the cause of this time is not the flush.
    private static let mostFixed = 5_000.0
    /// The assumed duration of a unit of work before the first measurement, in microseconds.
    private static let firstRate = 50.0
    /// The weight of ``firstRate`` in the average, as a number of measured units of work.
    private static let firstUnits = 200.0
    /// The bounds of a measured rate, in microseconds per unit of work.
    private static let rates = 1.0...20_000.0
    /// The amount of work after which a sample of an organization's rate expires.
    ///
    /// A sample is a group that contains jobs of one organization only.
    private static let sampleLife = 2_000_000.0
    /// The number of groups from one sample to the next.
    ///
    /// This interval limits the delay that samples cause for other organizations.
    private static let sampleInterval = 16

    private struct Account {
        /// The duration of a unit of work, in microseconds.
        var rate: Double
        /// The organization's recent work at the time ``at``.
        var use = 0.0
        /// The recent work of all groups that contained jobs of the organization. This value is an upper bound of
        /// ``use``.
        var sharedUse = 0.0
        var at: Double
        /// The value of ``clock`` when a group last contained only jobs of this organization.
        var sampledAt = -Double.infinity
    }

    private var accounts: [UUID: Account] = [:]
    /// The total work so far.
    private var clock = 0.0
    /// The recent work of all organizations.
    private var use = 0.0
    /// The recent measured work of all organizations, as a time and as a number of units.
    ///
    /// The quotient of time and units is an average. The average is based only on measurements, because predictions
    /// that are based on predictions could reinforce themselves.
    private var recent = (time: 0.0, units: 0.0)
    /// The average duration of a unit of work over all organizations, in microseconds.
    private var rate: Double {
        let average = (recent.time + Self.firstRate * Self.firstUnits) / (recent.units + Self.firstUnits)
        return min(max(average, Self.rates.lowerBound), Self.rates.upperBound)
    }
    /// The busy organizations, which have a large share of recent work. There are at most eight.
    private var busy: Set<UUID> = []
    /// The value of ``clock`` when an organization with a small share last had a job.
    private var quietAt = -Double.infinity
    /// The number of groups since the last sample.
    private var unsampled = 0
    /// The part of a group's work that does not depend on its jobs, estimated by the shortest measured times.
    private(set) var fixed = 1_000.0

    /// Whether the load is uneven, because an organization is busy while an organization with a small share is present.
    var isCrowded: Bool { !busy.isEmpty && clock - quietAt < Self.presence }

    func isBusy(_ organization: UUID) -> Bool { busy.contains(organization) }

    /// The expected work of a job, without the fixed part of its group.
    func cost(of item: FairGroupQueue.Item) -> Double {
        (accounts[item.lane.organization]?.rate ?? rate) * item.units
    }

    /// Whether the next group should be a sample that contains only jobs of this organization.
    ///
    /// The duration of a group does not show how long each of its jobs took. Therefore an organization that has jobs in
    /// most groups is measured alone, in at most one of ``sampleInterval`` groups.
    func needsSample(of organization: UUID) -> Bool {
        guard unsampled >= Self.sampleInterval, use >= Self.leastUse, let account = accounts[organization] else {
            return false
        }
        return clock - account.sampledAt >= Self.sampleLife && account.sharedUse >= use * Self.sharedBySuspects
    }

    /// Records that an organization has a waiting job.
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
        // the charged cost must not exceed the time that the group took
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

    /// Limits a correction, because a single group must not change a rate by a factor of more than eight.
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

/// A queue of organizations. After a job, an organization waits until the other organizations have used the same amount
/// of time.
///
/// Time is measured in microseconds of work. Each organization has a moment at which it becomes due, and each of its
/// jobs delays this moment by the job's cost. Each round advances the present moment by one portion, and then every
/// organization that is due can take a job.
struct CostOrderedQueue: Sendable {
    /// The amount of work by which a round advances the present moment.
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

    /// Corrects the moment at which an organization is due, by the difference between actual and expected cost.
    mutating func correct(_ organization: UUID, by difference: Double) {
        guard let moment = due[organization] else { return }
        due[organization] = max(present - Self.portion, moment + difference)
    }

    /// Advances to the next round in which at least one of these organizations is due.
    mutating func advance(for waiting: some Sequence<UUID>) {
        let next = waiting.map { due[$0] ?? present }.min() ?? present
        present = max(present + Self.portion, next)
    }
}
