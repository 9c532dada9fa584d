public import FoundationEssentials

/// One step of a lane's worker: the changes that it writes before it continues.
public enum LaneStep: Sendable {
    /// Claim the lane, if it is ready and no other worker holds it.
    case claim
    /// Write the outcomes of requests to the upstream, in one transaction.
    case settle([RequestResult])
    /// Apply a mutation to the built-in store.
    case apply(Dispatch)
    /// Continue under a lease, and release further mutations that wait for the given mutations.
    case proceed(token: Int64, unblocking: [UUID])

    /// The token of the lease under which the step is made; nil for a claim.
    public var token: Int64? {
        switch self {
        case .claim: nil
        case .settle(let results): results.first?.dispatch.token
        case .apply(let dispatch): dispatch.token
        case .proceed(let token, _): token
        }
    }

    /// The step's mutations, which are in flight until the step is committed.
    public var dispatches: [Dispatch] {
        switch self {
        case .settle(let results): results.map(\.dispatch)
        case .apply(let dispatch): [dispatch]
        case .claim, .proceed: []
        }
    }

    /// The existing entities that the step may change.
    public var entityKeys: [EntityKey] {
        switch self {
        case .claim, .proceed: []
        case .settle(let results): results.compactMap { $0.outcome.entityKey(of: $0.dispatch) }
        case .apply(let dispatch):
            dispatch.serverID.map { [EntityKey(type: dispatch.type.name, id: $0.text)] } ?? []
        }
    }
}

// MARK: - Several outcomes

/// The outcome of the request for a mutation in flight.
public struct RequestResult: Sendable {
    public let dispatch: Dispatch
    public let outcome: Outcome

    public init(_ dispatch: Dispatch, _ outcome: Outcome) {
        (self.dispatch, self.outcome) = (dispatch, outcome)
    }
}

extension LaneStep {
    /// The maximum number of outcomes of a step.
    ///
    /// Steps that are committed together have at most this number of outcomes in total, because each outcome can lock a
    /// document.
    public static let mostOutcomes = 256
    /// The maximum number of bytes of responses in a step that combines several outcomes.
    static let mostBytes = 1_048_576

    /// The number of outcomes that the step writes, or the number of finished mutations for which the step releases
    /// waiting mutations. At least 1.
    public var weight: Int {
        switch self {
        case .claim, .apply: 1
        case .settle(let results): max(1, results.count)
        case .proceed(_, let blockers): max(1, min(blockers.count, Self.mostOutcomes))
        }
    }

    /// Write the outcome of one request to the upstream.
    public static func settle(_ dispatch: Dispatch, _ outcome: Outcome) -> LaneStep {
        .settle([RequestResult(dispatch, outcome)])
    }

    /// Removes the next step from the waiting steps, and returns it; nil if no step waits.
    ///
    /// Combines the outcomes of several requests into one step, within the limits. Two creates that got the same server
    /// id are written by separate steps, because the second step must find the local id (the entity's number on the
    /// device) that the first step stored.
    public static func removeNext(from waiting: inout [LaneStep]) -> LaneStep? {
        guard case .settle(var results)? = waiting.first else { return waiting.isEmpty ? nil : waiting.removeFirst() }
        var (count, bytes) = (1, results.reduce(0) { $0 + $1.bytes })
        var created = Set(results.compactMap(\.created))
        while count < waiting.count, case .settle(let more) = waiting[count] {
            bytes += more.reduce(0) { $0 + $1.bytes }
            let ids = more.compactMap(\.created)
            guard results.count + more.count <= mostOutcomes, bytes <= mostBytes, created.isDisjoint(with: ids) else {
                break
            }
            results += more
            created.formUnion(ids)
            count += 1
        }
        waiting.removeFirst(count)
        return .settle(results)
    }
}

extension RequestResult {
    /// The number of bytes of the upstream's response that are stored.
    public var bytes: Int { outcome.responseBody?.count ?? 0 }

    /// The entity that the mutation created; nil if it created no entity.
    fileprivate var created: EntityKey? {
        guard dispatch.mutation.operation == .create else { return nil }
        return outcome.serverID.map { EntityKey(type: dispatch.mutation.entity.type, id: $0.text) }
    }
}

extension LaneStep {
    /// The entities to which the step's entity refers after the step.
    ///
    /// - Parameter relations: the organization's enforced relations.
    public func targets(_ relations: EntityRelations) -> Set<EntityKey> {
        guard case .apply(let dispatch) = self, case .builtIn(let payload) = dispatch.destination,
            dispatch.mutation.operation != .delete
        else { return [] }
        return Set(relations.references(in: payload, of: dispatch.type.name).map(\.target))
    }

    /// Whether the step deletes an entity of the built-in store.
    public var isDeletion: Bool {
        guard case .apply(let dispatch) = self else { return false }
        return dispatch.mutation.operation == .delete
    }
}

/// The next action of a lane's worker, which is the result of a step.
public enum LaneAction: Sendable {
    /// Run this mutation, which is committed as in flight.
    case run(Dispatch)
    /// Make another step immediately.
    case proceed(token: Int64, unblocking: [UUID])
    /// Run these mutations, which are committed as in flight, in addition to the mutations that already run.
    ///
    /// Make another step when one of the mutations in flight has an outcome, at the time `due`, or when the lane
    /// changes. If `isIncomplete` is true, make another step immediately.
    case start([Dispatch], token: Int64, unblocking: [UUID], isIncomplete: Bool, due: Timestamp?)
    /// Do nothing, because the lane was released.
    ///
    /// A worker may claim the lane again at this time. If the time is nil, a worker may claim the lane after the next
    /// push, or after a person settles a mutation.
    case released(readyAt: Timestamp?)
    /// Do nothing, because another worker holds the lane, or the lane was not ready.
    ///
    /// If the step contained an outcome, the gateway discards it.
    case lost
}

extension LaneAction {
    /// The mutations to run.
    public var dispatches: [Dispatch] {
        switch self {
        case .run(let dispatch): [dispatch]
        case .start(let dispatches, _, _, _, _): dispatches
        case .proceed, .released, .lost: []
        }
    }
}

/// A worker's request for one step of a lane.
public struct LaneRequest: Sendable {
    public let lane: LaneKey
    public let step: LaneStep
    /// The worker process.
    public let worker: UUID
    /// The end of the circuit breaker's pause; nil if the upstream's circuit is closed. Nothing is sent before this
    /// time.
    public let heldUntil: Timestamp?
    /// Whether to release the lane after this step.
    public let releases: Bool
    /// The worker's mutations in flight; nil for a worker that has at most one mutation in flight.
    public let progress: LaneProgress?

    public init(
        lane: LaneKey,
        step: LaneStep,
        worker: UUID,
        heldUntil: Timestamp? = nil,
        releases: Bool = false,
        progress: LaneProgress? = nil
    ) {
        self.lane = lane
        self.step = step
        self.worker = worker
        self.heldUntil = heldUntil
        self.releases = releases
        self.progress = progress
    }
}

/// The state of a worker that runs several mutations of a lane at the same time (product rule 19).
public struct LaneProgress: Sendable {
    /// The number of steps since the worker claimed the lane. Only steps whose results the worker received are counted.
    /// The claim is the first step.
    public var step: Int64 = 0
    /// The lane's mutations in flight, apart from the mutation of the step.
    public var flights: [LaneFlight] = []
    /// The number of the organization's lanes that the gateway runs now. These lanes share the upstream's concurrency.
    public var lanes = 1
    /// The number of requests that the gateway may send in addition to one request for each lane.
    public var room = Int.max
    /// The number of requests that the step may start within the upstream's `maximumConcurrency`. A batch counts as one
    /// request.
    public var slots = Int.max
    /// Whether the upstream's circuit breaker permits only one request, as a probe.
    public var isProbe = false
    /// The time of the last change of the upstream's settings, if the upstream has refused a batch since this change;
    /// otherwise nil.
    ///
    /// After an operator has changed the settings again, the gateway sends batches again.
    public var batchRefusal: Timestamp?

    public init() {}

    /// The upstream's settings for batches; nil if mutations are sent one by one.
    public func batch(in organization: Organization) -> UpstreamBatch? {
        guard organization.settings.order == .dependencies, let upstream = organization.upstream,
            upstream.changedAt != batchRefusal
        else { return nil }
        return upstream.batch
    }

    /// The maximum number of mutations that the lane has in flight after the step.
    ///
    /// A batch is one request. The next batch starts after all parts of the present batch are settled.
    func limit(in organization: Organization) -> Int {
        if let batch = batch(in: organization) {
            guard flights.isEmpty else { return flights.count }
            return isProbe ? 1 : max(1, min(room, batch.maxRequests))
        }
        let share = organization.upstream.map { $0.maximumConcurrency / max(1, lanes) } ?? Int.max
        let limit = max(1, min(organization.settings.maxInFlightPerUser, share))
        let starts = min(isProbe ? 1 : .max, max(min(room, slots), flights.isEmpty ? 1 : 0))
        return starts < limit ? min(limit, flights.count + starts) : limit
    }

    /// The maximum number of retried mutations in flight while other mutations are due: an eighth of the maximum number
    /// of mutations in flight, and at least one.
    ///
    /// Without this limit, the retries of a failing route would take most of the requests from the routes that work.
    func retriedLimit(in organization: Organization) -> Int {
        max(1, (batch(in: organization)?.maxRequests ?? organization.settings.maxInFlightPerUser) / 8)
    }
}

/// A mutation in flight, possibly one of several.
public struct LaneFlight: Sendable, Hashable {
    public let id: UUID
    public let position: Int64
    /// The mutation's entity; nil while the entity has no permanent id.
    public let entity: EntityKey?
    /// Whether the mutation was sent again after a back-off.
    public let isRetried: Bool

    public init(of dispatch: Dispatch) {
        id = dispatch.mutation.id
        isRetried = dispatch.mutation.isRetried
        position = dispatch.mutation.position
        entity = dispatch.serverID.map { EntityKey(type: dispatch.type.name, id: $0.text) }
    }
}

/// A mutation that a step has processed, and its outcome.
public struct LaneOutcome: Sendable {
    public let mutation: QueuedMutation
    /// The previous status: `inFlight`, or `pending` if the mutation got its outcome without being run.
    public let from: MutationStatus
    public let outcome: Outcome
    /// The entity's version after the outcome; nil if the entity is not written to the feed.
    public var version: Int64?

    /// The mutation's new status; nil if the change of status is not valid.
    ///
    /// A mutation that must be sent again in another form keeps its status.
    public var status: MutationStatus? { from.moved(to: outcome.status) }
}

/// The time for which a worker holds a lane if it does not renew the lease.
///
/// Requests time out well before the lease expires.
struct LaneLease: Sendable, Hashable {
    /// The length of a lease, in seconds.
    let seconds: Double

    /// The minimum time between the time-out of a request and the end of the lease, in seconds.
    var margin: Double { min(10, seconds / 4) }

    /// When a lease taken at `now` expires.
    func end(from now: Timestamp) -> Timestamp { now.adding(seconds: seconds) }

    /// The time-out of a request to an upstream, in seconds.
    func timeout(of upstream: UpstreamSettings) -> Double {
        min(Double(upstream.timeoutSeconds), max(1, seconds - margin))
    }

    /// Whether a lease with this end must be renewed.
    ///
    /// The lease must be renewed if it expires too early for a whole request. The lease must also be renewed if it
    /// expires later than a lease that is taken now. In this case, the lease was taken before the clock was set back.
    func mustRenew(_ end: Timestamp?, upstream: UpstreamSettings?, now: Timestamp) -> Bool {
        guard let end, end <= self.end(from: now) else { return true }
        let request = Double(upstream?.timeoutSeconds ?? 0)
        let needed = max(seconds / 2, min(request, seconds - margin) + margin / 2)
        return end < now.adding(seconds: needed)
    }
}

/// The identifier of a lane, which is a user's ordered queue in an organization.
public struct LaneKey: Sendable, Hashable, Comparable {
    public let organization: UUID
    public let user: UUID

    public init(organization: UUID, user: UUID) {
        self.organization = organization
        self.user = user
    }

    /// The order in which locks are taken.
    public static func < (left: LaneKey, right: LaneKey) -> Bool {
        left.organization != right.organization ? left.organization < right.organization : left.user < right.user
    }
}

/// The pending mutations, as read by a poll, of a lane that may have several mutations in flight.
public struct LaneWindow {
    /// The maximum number of pending mutations that a poll examines to find the time of the next retry.
    public static let limit = 256
    /// The maximum time that a lane waits if a poll did not examine all of its pending mutations, in seconds.
    static let longestWait: Double = 60

    /// The first pending mutation; nil if no mutation is pending.
    public var first: (position: Int64, acceptedAt: Timestamp)?
    /// When the next retry is due, among the first ``limit`` pending mutations.
    public var nextRetryAt: Timestamp?
    /// Whether there are more than ``limit`` pending mutations.
    public var isFull = false
    /// The mutations that are due, in order: up to the requested number of mutations that are not retried after a
    /// back-off, and up to the same number of retried mutations. Only the first ``limit`` pending mutations are
    /// searched for retried mutations.
    public var due: [FoundHead] = []

    public init() {}
}

/// The first pending mutation of a lane, as read by a poll.
public enum FoundHead {
    /// No mutation is pending at or after the lane's head position.
    case none
    /// A mutation, its entity type, the resolved mappings of its client ids, and its entity.
    ///
    /// The entity is read from the database, without the changes that the transaction has not written yet.
    case mutation(QueuedMutation, EntityType, [UUID: [DispatchPlanner.ResolvedID]], EntityState?)
    /// This gateway cannot decrypt the mutation.
    ///
    /// The outcome of the previous request is written nevertheless.
    case sealed(position: Int64, SealError)

    var isRetried: Bool {
        if case .mutation(let mutation, _, _, _) = self { mutation.isRetried } else { false }
    }
}
