package import FoundationEssentials
import GroupCommit
import Postgres
import ServiceLifecycle
package import Spans
package import SyncModel
import Synchronization

/// Accepts pushes and commits them in groups.
package final class PushCommit: Service {
    private let committers: Committers<PushWork>
    private let catalog: Catalog
    private let stuckMutations: FailureSearcher
    private let holds: LaneBlockerReader

    /// The error that prevents the committers from writing; nil while they can write.
    var writeFailure: PostgresError? { committers.writeFailure }

    init(
        committers: Committers<PushWork>,
        catalog: Catalog,
        stuckMutations: FailureSearcher,
        holds: LaneBlockerReader
    ) {
        self.committers = committers
        self.catalog = catalog
        self.stuckMutations = stuckMutations
        self.holds = holds
    }

    /// Commits a push, together with other pushes.
    ///
    /// Returns once the commit is durable. A push is committed even if its client has disconnected.
    ///
    /// - Parameters:
    ///   - traceparent: W3C trace context of the request. The gateway sends it to the upstream.
    ///   - span: the span of the push, if the span is recorded. The span ends with the commit. If there is a span, it
    ///     is used instead of `traceparent`.
    /// - Throws: the problem that refuses the whole push; `overloaded` and `store_unavailable` with `retryAfter`.
    package func submit(
        _ push: PushRequest,
        organization: Organization,
        user: UUID,
        isStrict: Bool,
        traceparent: String? = nil,
        span: GatewaySpan? = nil
    ) async throws(Problem) -> PushAnswer {
        defer { span?.end() }
        let place = try await catalog.entry(organization.id).place
        let answer = try await committers.submit(at: place) { reply in
            PushJob(
                push: push,
                organization: organization,
                user: user,
                isStrict: isStrict,
                traceparent: span?.context.traceparent ?? traceparent,
                reply: reply,
                span: span
            )
        }
        return await completed(answer, of: LaneKey(organization: organization.id, user: user))
    }

    /// Commits a push, together with other pushes, without waiting for its answer.
    ///
    /// - Parameter receiver: receives the answer, on any thread. If ``isComplete(_:)`` is false for the answer, use
    ///   ``completed(_:of:)``.
    /// - Returns: false if the cached organization is too old. In that case nothing has happened.
    package func submitAtOnce(
        _ push: PushRequest,
        organization: Organization,
        user: UUID,
        isStrict: Bool,
        traceparent: String?,
        span: GatewaySpan? = nil,
        _ receiver: @escaping @Sendable (Result<PushAnswer, Problem>) -> Void
    ) -> Bool {
        guard let place = catalog.cachedEntry(organization.id)?.place else { return false }
        let reply = JobCompletion { (answer: Result<PushAnswer, Problem>) in
            span?.end()
            receiver(answer)
        }
        let job = PushJob(
            push: push,
            organization: organization,
            user: user,
            isStrict: isStrict,
            traceparent: span?.context.traceparent ?? traceparent,
            reply: reply,
            span: span
        )
        committers.submit(job, at: place, reply)
        return true
    }

    /// Whether the answer to a committed push needs no further look-ups, which is the usual case.
    package func isComplete(_ answer: PushAnswer) -> Bool {
        !answer.lane.mayBeHeld && !answer.verdicts.contains { $0.status == .blocked }
    }

    /// Returns the answer to a committed push with the results of the remaining look-ups.
    ///
    /// The push is committed, so no later error must replace its answer.
    package func completed(_ answer: PushAnswer, of lane: LaneKey) async -> PushAnswer {
        var answer = answer
        answer.stuck = await stuckMutations.stuck(
            among: answer.verdicts,
            organization: lane.organization,
            user: lane.user
        )
        answer.blocker = await holds.blocker(of: lane, as: answer.lane)
        return answer
    }

    /// Runs the committers until graceful shutdown, and finishes pushes that are already queued.
    package func run() async throws {
        try await committers.run()
    }

    /// The number of pushes that wait for a committer, for metrics.
    package var waiting: Int { committers.waiting }
}

/// A push in a committer's queue, with the reply to its caller.
struct PushJob: GroupJob {
    let push: PushRequest
    let organization: Organization
    let user: UUID
    let isStrict: Bool
    let traceparent: String?
    let enqueuedAt = ContinuousClock.now
    let reply: JobCompletion<PushAnswer>
    let span: GatewaySpan?

    var lane: LaneKey { LaneKey(organization: organization.id, user: user) }
    var device: DeviceKey { DeviceKey(lane: lane, id: push.deviceID) }

    func input(_ entry: Catalog.Entry) -> PushInput {
        PushInput(
            push: push,
            lane: lane,
            quota: organization.settings.mutationQuota,
            localIDs: PushLocalIDs(push) { entry.types[$0] },
            relations: entry.relations,
            channelRules: entry.channelRules
        )
    }

    var weight: Int { max(1, push.entries.count) }
    var bytes: Int { push.bodyBytes }
    var isAnswered: Bool { reply.isSent }

    func refuse(_ problem: Problem) {
        reply.send(.failure(problem))
    }
}

/// The pushes of a group, with the inputs of their plans.
///
/// Each list has one element for each push.
struct PushBatch {
    private(set) var jobs: [PushJob] = []
    private(set) var contexts: [PushPlanner.Context] = []
    private(set) var inputs: [PushInput] = []

    var isEmpty: Bool { jobs.isEmpty }

    mutating func add(_ job: PushJob, _ context: PushPlanner.Context, _ input: PushInput) {
        jobs.append(job)
        contexts.append(context)
        inputs.append(input)
    }

    /// Returns the pushes at the given indices.
    subscript(places: [Int]) -> PushBatch {
        var part = PushBatch()
        for place in places { part.add(jobs[place], contexts[place], inputs[place]) }
        return part
    }
}

/// A push to be planned, with the data about its user and organization.
struct PushInput {
    let push: PushRequest
    let lane: LaneKey
    /// The quota of the user's pushes; nil for no limit.
    let quota: Quota?
    /// The local ids that the push names.
    let localIDs: PushLocalIDs
    /// The organization's enforced relations.
    let relations: EntityRelations
    /// The rules of the organization's types with channels.
    var channelRules: [ByteExactString: ChannelRules] = [:]

    var device: DeviceKey { DeviceKey(lane: lane, id: push.deviceID) }
    /// Whether entities of the organization grant channels to subjects.
    var grantsToSubjects: Bool { ChannelRules.grantToSubjects(channelRules) }
}

/// A cache of recent devices' watermarks. Keys above a cached watermark need no look-up.
///
/// The cache is only a hint. If the locked row has another watermark, the group is read again, and every key is looked
/// up. If a key is not new after all, the unique index rejects it.
final class WatermarkHints: Sendable {
    /// The maximum number of cached devices (about 6 MB). If it is exceeded, the cache is cleared.
    static let capacity = 50_000

    private let watermarks = Mutex([DeviceKey: Int64]())

    subscript(device: DeviceKey) -> Int64? {
        watermarks.withLock { $0[device] }
    }

    func record(_ watermark: Int64, of device: DeviceKey) {
        watermarks.withLock { watermarks in
            if watermarks.count >= Self.capacity { watermarks.removeAll(keepingCapacity: true) }
            watermarks[device] = watermark
        }
    }
}
