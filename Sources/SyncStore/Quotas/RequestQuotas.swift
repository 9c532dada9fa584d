import FoundationEssentials
import GroupCommit
import Logging
import Postgres
import ServiceLifecycle
package import SyncModel
import Synchronization

/// Enforces organizations' request quotas over all replicas together.
///
/// Each organization's bucket is a row. A replica draws requests from the bucket in advance: a draw covers a quarter of
/// a second, for all organizations in one transaction. The replica then admits requests from memory.
///
/// In an interval of T seconds, the number of admitted requests is at most the sum of:
///
/// - `rate · T`
/// - `rate`, the full bucket
/// - `max(1, rate / 4)` for each replica, which the replica may have drawn before the interval
///
/// An organization without a quota causes no cost.
package final class RequestQuotas: Service {
    /// The maximum number of organizations whose drawn requests (portions) are in memory.
    ///
    /// If there are more organizations, those without waiting requests are dropped together with their portions.
    static let capacity = 20_000

    private struct Entry {
        var portion: RequestPortion
        var waiters: [JobCompletion<QuotaStatus>] = []
        var isDue = false
    }

    private struct State {
        var entries: [UUID: Entry] = [:]
        var due: Set<UUID> = []
        var isClosed = false
    }

    private let draw: RequestDraw
    private let cluster: Cluster
    private let now: TimeSource
    private let failure: StoreFailure
    private let state = Mutex(State())
    private let signal = CoalescedSignal()

    init(pool: Pool, cluster: Cluster, now: @escaping TimeSource, failure: StoreFailure) {
        draw = RequestDraw(pool: pool)
        self.cluster = cluster
        self.now = now
        self.failure = failure
    }

    /// Counts one request of an organization.
    ///
    /// - Returns: the remaining quota; nil if the organization has no quota.
    /// - Throws: `rate_limited`; `store_unavailable` if the bucket cannot be read; `organization_unknown` if the
    ///   organization was purged.
    package func admit(_ organization: Organization) async throws(Problem) -> QuotaStatus? {
        guard let quota = organization.settings.requestQuota else { return nil }
        let moment = now()
        if let known = state.withLock({ admitFromMemory(&$0, organization.id, quota, moment) }) {
            return try known.get()
        }
        let result = await withCheckedContinuation { continuation in
            let reply = JobCompletion<QuotaStatus>(continuation)
            let known = state.withLock { state -> Result<QuotaStatus, Problem>? in
                if state.isClosed { return .failure(Problem.storeUnavailable) }
                if let known = admitFromMemory(&state, organization.id, quota, moment) { return known }
                state.entries[organization.id]?.waiters.append(reply)
                return nil
            }
            if let known { reply.send(known) }
        }
        return try result.get()
    }

    /// Draws for organizations with waiting requests until graceful shutdown.
    package func run() async throws {
        for await _ in signal.signals.cancelOnGracefulShutdown() { await drawDue() }
        let left = state.withLock { state in
            state.isClosed = true
            defer { state.entries = [:] }
            return state.entries.values.flatMap(\.waiters)
        }
        for waiter in left { waiter.send(.failure(Problem.storeUnavailable)) }
    }

    // MARK: - From memory

    /// Admits or refuses a request from memory; nil if the bucket has to be read first.
    private func admitFromMemory(
        _ state: inout State,
        _ id: UUID,
        _ quota: Quota,
        _ moment: Timestamp
    ) -> Result<QuotaStatus, Problem>? {
        if state.entries[id] == nil {
            if state.entries.count >= Self.capacity {
                state.entries = state.entries.filter { $0.value.isDue || !$0.value.waiters.isEmpty }
            }
            state.entries[id] = Entry(portion: RequestPortion(quota))
        }
        guard var entry = state.entries[id] else { return nil }
        defer { state.entries[id] = entry }
        let answer = entry.portion.admit(quota, at: moment)
        if answer == .unknown || entry.portion.isLow(at: moment), !entry.isDue {
            entry.isDue = true
            state.due.insert(id)
            signal.send()
        }
        switch answer {
        case .admitted(let status): return .success(status)
        case .refused(let status): return .failure(Self.refusal(status))
        case .unknown: return nil
        }
    }

    private static func refusal(_ status: QuotaStatus) -> Problem {
        var problem = Problem(
            .rateLimited,
            "the organization's quota of \(status.quota.limit) requests per second is exhausted"
        )
        problem.retryAfter = 1
        problem.quotaStatus = status
        return problem
    }

    private static var unknown: Problem {
        Problem(.organizationUnknown, "The organization of this token is unknown.")
    }

    // MARK: - From the buckets

    private func drawDue() async {
        while true {
            let moment = now()
            let wishes = state.withLock { state in
                defer { state.due = [] }
                return state.due.compactMap { id in
                    state.entries[id].map { entry in
                        RequestDraw.Demand(
                            organization: id,
                            quota: entry.portion.quota,
                            wanted: entry.portion.wanted(waiting: entry.waiters.count)
                        )
                    }
                }
            }
            guard !wishes.isEmpty, !Task.isCancelled else { return }
            // in a Citus cluster, the draws run concurrently, and the pool limits their number
            await withDiscardingTaskGroup { group in
                for part in cluster.parts(wishes, by: \.organization) {
                    group.addTask { await self.draw(part, moment) }
                }
            }
        }
    }

    private func draw(_ wishes: [RequestDraw.Demand], _ moment: Timestamp) async {
        do {
            let grants = try await draw.draw(wishes, at: moment)
            for wish in wishes { take(wish, grants[wish.organization], moment) }
        } catch {
            let problem = failure.problem(error, doing: "draw requests from a quota")
            if problem.code == .overloaded, wishes.count > 1 {
                await drawSingly(wishes, moment)
            } else {
                for wish in wishes { end(wish.organization, problem) }
            }
        }
    }

    /// Draws for one organization at a time.
    ///
    /// If another transaction has locked the bucket of one organization, the other organizations need not wait for that
    /// lock.
    private func drawSingly(_ wishes: [RequestDraw.Demand], _ moment: Timestamp) async {
        for wish in wishes {
            do {
                let grants = try await draw.draw([wish], at: moment)
                take(wish, grants[wish.organization], moment)
            } catch {
                end(wish.organization, failure.problem(error, doing: "draw requests from a quota"))
            }
        }
    }

    /// Answers waiting requests in the order of their arrival.
    ///
    /// Requests that arrived after the draw began wait for the next draw.
    private func take(_ wish: RequestDraw.Demand, _ grant: RequestDraw.Grant?, _ moment: Timestamp) {
        guard let grant else { return end(wish.organization, Self.unknown) }
        let answers = state.withLock { state -> [(JobCompletion<QuotaStatus>, Result<QuotaStatus, Problem>)] in
            guard let waiters = state.entries[wish.organization]?.waiters,
                let quota = state.entries[wish.organization]?.portion.quota
            else { return [] }
            state.entries[wish.organization]?.waiters = []
            state.entries[wish.organization]?.isDue = false
            state.entries[wish.organization]?.portion
                .add(grant.granted, wanted: wish.wanted, from: grant.bucket, at: moment)
            var answers: [(JobCompletion<QuotaStatus>, Result<QuotaStatus, Problem>)] = []
            var late: [JobCompletion<QuotaStatus>] = []
            for waiter in waiters {
                if let known = admitFromMemory(&state, wish.organization, quota, moment) {
                    answers.append((waiter, known))
                } else {
                    late.append(waiter)
                }
            }
            state.entries[wish.organization]?.waiters = late
            state.entries[wish.organization]?.portion.trim()
            return answers
        }
        for (waiter, answer) in answers { waiter.send(answer) }
    }

    private func end(_ organization: UUID, _ problem: Problem) {
        let waiters = state.withLock { $0.entries.removeValue(forKey: organization)?.waiters ?? [] }
        for waiter in waiters { waiter.send(.failure(problem)) }
    }
}
