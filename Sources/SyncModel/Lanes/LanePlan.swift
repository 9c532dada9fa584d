public import FoundationEssentials

/// The decisions of one step of a lane's worker. This type does no I/O.
///
/// The caller makes three calls during the step's transaction, and after each call writes ``outcomes`` and ``lane``:
/// - ``init(_:lane:organization:isClosed:by:now:)``, after the lane has been locked
/// - ``settle(_:_:)``, after lost mutations have been found
/// - ``choose(by:_:waiting:now:)``, after the head has been read
///
/// The plan is a class because many methods change it and nothing copies it.
public final class LanePlan {
    /// The interrupted work that the step must recover first.
    public enum Recovery: Sendable {
        /// The lane's last worker was lost, and the mutation in flight may have been sent.
        case takeover
        /// The step was already committed, but the worker did not receive the step's result.
        ///
        /// The mutation in flight was never sent.
        case repetition
    }

    /// The time that a lane waits if the organization is not active, in seconds.
    ///
    /// A lane also waits for this time if this gateway cannot decrypt the mutation at its head.
    public static let pause: Double = 30
    /// The time that a lane waits while its user is being joined or erased, in seconds.
    ///
    /// The lane may wait for up to this time after the operation has ended.
    public static let closedPause: Double = 5
    /// The time after which a lane checks again whether a parked event was evaluated, in seconds.
    ///
    /// The event may be in conflict with the mutation at the lane's head.
    public static let parkedPause: Double = 0.25
    /// The maximum time that a retried mutation waits for the end of other retried mutations, in seconds.
    private static let retriedPause: Double = 1

    public let request: LaneRequest
    /// The lane's organization; nil if the organization no longer exists.
    private let organization: Organization?
    /// Whether the user is being joined into another user, or erased.
    ///
    /// In both cases, the worker starts no further mutation of the lane.
    private let isClosed: Bool
    public let recovery: Recovery?
    /// The lane as it is written at the end of the step.
    public private(set) var lane: LaneState
    /// The outcomes that the caller has not written yet.
    public private(set) var outcomes: [LaneOutcome] = []
    /// The finished mutations whose waiters this step releases. A waiter is a mutation that depends on another one.
    ///
    /// The maximum number of these mutations is the step's weight, which bounds the work of a statement.
    public private(set) var unblocking: [UUID] = []
    /// The finished mutations whose waiters must be released after the waiters of ``unblocking``.
    private var unfinished: [UUID] = []
    /// The members of ``unblocking`` that have more waiters than the step releases.
    public var unreleased: Set<UUID> = []
    private var lowestReleased: Int64?
    /// The position from which the step searches for pending mutations.
    private var searchedFrom: Int64 = 0
    public var head = FoundHead.none
    /// The pending mutations, if several may be in flight.
    public var window: LaneWindow?
    /// A description of an inconsistency in the lane that the step corrected.
    public private(set) var note: String?
    public private(set) var nextAction = LaneAction.lost

    /// Begins a step.
    ///
    /// - Parameters:
    ///   - lane: the lane as in its locked row.
    ///   - isClosed: whether the user is being joined into another user, or erased.
    /// - Returns: nil if the step is lost, because another gateway holds the lane or the lane is not ready.
    public init?(
        _ request: LaneRequest,
        lane: LaneState,
        organization: Organization?,
        isClosed: Bool = false,
        by planner: DispatchPlanner,
        now: Timestamp
    ) {
        self.request = request
        self.organization = organization
        self.isClosed = isClosed
        self.lane = lane
        if let token = request.step.token {
            guard lane.lease.token == token, lane.lease.owner == request.worker else { return nil }
            self.lane.renew(planner.lease, upstream: organization?.upstream, now: now)
            if let progress = request.progress {
                recovery = lane.lease.step == progress.step ? nil : .repetition
                self.lane.countStep(after: progress.step)
            } else {
                recovery = lane.inFlight == request.step.dispatches.first?.mutation.id ? nil : .repetition
            }
        } else {
            // a process never runs a lane twice at the same time; so if the lease already belongs to this worker, the
            // worker has stopped running the lane, or did not receive the result of its earlier claim
            guard lane.isReady(at: now) || lane.lease.owner == request.worker else { return nil }
            self.lane.claim(by: request.worker, planner.lease, now: now)
            recovery = lane.lease.owner == nil ? nil : .takeover
        }
    }

    // MARK: - Recovery

    /// Recovers a mutation that is in flight according to its row.
    ///
    /// Does nothing if this worker still has the mutation in flight.
    public func recover(_ mutation: QueuedMutation, isForwarded: Bool) {
        if flights.contains(where: { $0.id == mutation.id }) { return }
        let outcome =
            recovery == .repetition
            ? Outcome(ofUnsent: mutation, isForwarded: isForwarded) : Outcome(ofLost: mutation, wasSent: isForwarded)
        outcomes.append(LaneOutcome(mutation: mutation, from: .inFlight, outcome: outcome))
    }

    /// Recovers a finished mutation for which other mutations still wait.
    public func recover(waitersFor blocker: UUID) {
        unfinished.append(blocker)
    }

    // MARK: - The outcome of the request

    /// Computes the outcomes of the step's mutations in flight, and their effects on entities and the lane.
    ///
    /// - Parameters:
    ///   - entities: the entities by organization, read under their locks. The method changes these entities.
    ///   - makeID: generates the id of an entity that the built-in store creates.
    public func settle(_ entities: inout [UUID: EntityTable], _ makeID: () -> UUID) {
        let organization = request.lane.organization
        switch request.step {
        case .claim: break
        case .proceed(_, let blockers): unfinished += blockers
        // a repeated step does nothing, because its outcome was already written
        case .settle where recovery != nil, .apply where recovery != nil: break
        case .settle(let results):
            for result in results {
                var outcome = result.outcome
                let version = outcome.enterFeed(of: result.dispatch, &entities[organization, default: EntityTable()])
                clearInFlight(result.dispatch, outcome, version)
            }
        case .apply(let dispatch):
            guard case .builtIn(let payload) = dispatch.destination else { break }
            let (outcome, version) = dispatch.applied(
                to: &entities[organization, default: EntityTable()],
                payload: payload,
                makeID: makeID
            )
            clearInFlight(dispatch, outcome, version)
        }
        lane.change()
        if recovery != nil { lane.clearInFlight() }
        for outcome in outcomes { finish(outcome) }
        unblocking = Array(unfinished.prefix(request.step.weight))
        unfinished.removeFirst(unblocking.count)
        searchedFrom = lane.queue.head
    }

    /// Changes entities in the same way as ``settle(_:_:)``, and changes nothing else.
    ///
    /// The caller uses the changed entities to find the channels on which the outcomes depend.
    public func rehearse(_ entities: inout [UUID: EntityTable], _ makeID: () -> UUID) {
        let organization = request.lane.organization
        guard recovery == nil else { return }
        switch request.step {
        case .claim, .proceed: break
        case .settle(let results):
            for result in results {
                var outcome = result.outcome
                _ = outcome.enterFeed(of: result.dispatch, &entities[organization, default: EntityTable()])
            }
        case .apply(let dispatch):
            guard case .builtIn(let payload) = dispatch.destination else { break }
            _ = dispatch.applied(
                to: &entities[organization, default: EntityTable()],
                payload: payload,
                makeID: makeID
            )
        }
    }

    private func clearInFlight(_ dispatch: Dispatch, _ outcome: Outcome, _ version: Int64?) {
        outcomes.append(
            LaneOutcome(mutation: dispatch.mutation, from: .inFlight, outcome: outcome, version: version)
        )
    }

    private func finish(_ outcome: LaneOutcome) {
        let halts = outcome.outcome.haltsLane || organization?.settings.halts(at: outcome.outcome.status) ?? false
        lane.finish(outcome, halts: halts)
        if outcome.outcome.satisfiesDependants { unfinished.append(outcome.mutation.id) }
    }

    // MARK: - The next turn

    /// Queues a mutation that waited for a mutation in ``unblocking``, and now waits for no mutation.
    public func release(position: Int64, acceptedAt: Timestamp) {
        lane.enqueue(position: position, acceptedAt: acceptedAt)
        lowestReleased = min(lowestReleased ?? position, position)
    }

    /// Updates the lane's head from ``head``, and decides the worker's ``nextAction``.
    ///
    /// - Parameters:
    ///   - entities: the entities by organization, after ``settle(_:_:)`` was called for all steps that are committed
    ///     together. The changes of entities are not written yet. Therefore ``head`` shows the earlier states.
    ///   - waiting: entities with parked events.
    public func choose(
        by planner: DispatchPlanner,
        _ entities: [UUID: EntityTable],
        waiting: Set<EntityKey> = [],
        now: Timestamp
    ) {
        outcomes = []
        if let window {
            nextAction = start(from: window, planner, entities, waiting, now)
        } else {
            place()
            nextAction = next(planner, entities, waiting, now)
        }
    }

    /// The lane's mutations in flight, except the mutations of the step.
    private var flights: [LaneFlight] { request.progress?.flights ?? [] }

    /// Whether the lane may have several mutations in flight, or still has mutations in flight from earlier steps.
    ///
    /// If true, the caller sets ``window``.
    public var isConcurrent: Bool {
        request.progress != nil && (organization?.settings.order == .dependencies || !flights.isEmpty)
    }

    /// The maximum number of mutations that the step may start. The caller reads at most this number of due mutations.
    public var room: Int {
        guard let organization, let progress = request.progress else { return 0 }
        return request.releases ? 1 : max(0, progress.limit(in: organization) - flights.count)
    }

    /// Whether the step may start mutations in addition to the mutations in flight.
    private var mayStart: Bool {
        organization?.settings.order == .dependencies && !request.releases && lane.haltedBy == nil && pauseOfLane == nil
    }

    /// The mutations whose waiters the next steps release.
    private var blockers: [UUID] { unfinished + unblocking.filter(unreleased.contains) }

    private func place() {
        let lowest = lowestReleased ?? .max
        switch head {
        case .sealed(let position, _): lane.setHead(to: min(position, lowest), queuedSince: lane.queue.since)
        case .mutation(let head, _, _, _): lane.setHead(to: min(head.position, lowest), queuedSince: head.acceptedAt)
        case .none:
            if lowestReleased == nil, lane.queue.count != 0 {
                note = lane.repairCounters()
                if lane.isSearched { return }
            }
            lane.setHead(to: min(lane.nextPosition, lowest), queuedSince: nil)
        }
    }

    private func next(
        _ planner: DispatchPlanner,
        _ entities: [UUID: EntityTable],
        _ waiting: Set<EntityKey>,
        _ now: Timestamp
    ) -> LaneAction {
        let blockers = blockers
        if !blockers.isEmpty || lane.isSearched { return proceed(unblocking: blockers) }
        if lane.haltedBy != nil { return release(at: nil) }
        switch head {
        case .none: return release(at: nil)
        case .sealed(let position, _):
            return isPassed(position) ? proceed() : release(at: now.adding(seconds: Self.pause))
        case .mutation(let head, let type, let mappings, let entity):
            if isPassed(head.position) { return proceed() }
            guard let organization, organization.status == .active else {
                return release(at: now.adding(seconds: Self.pause))
            }
            if isClosed { return release(at: now.adding(seconds: Self.closedPause)) }
            let surroundings = context(of: head, type, mappings, entity, organization, entities, now)
            if surroundings.mustWait(head, for: waiting) { return release(at: now.adding(seconds: Self.parkedPause)) }
            return action(of: head, planner.decide(head, surroundings, now: now, heldUntil: request.heldUntil), now)
        }
    }

    private func context(
        of mutation: QueuedMutation,
        _ type: EntityType,
        _ mappings: [UUID: [DispatchPlanner.ResolvedID]],
        _ entity: EntityState?,
        _ organization: Organization,
        _ entities: [UUID: EntityTable],
        _ now: Timestamp
    ) -> DispatchPlanner.LaneContext {
        var context = DispatchPlanner.LaneContext(
            lane: request.lane,
            token: lane.lease.token,
            leasedUntil: lane.readyAt ?? now,
            organization: organization,
            type: type,
            mappings: mappings,
            entity: entity
        )
        if let locked = entities[organization.id] {
            context.access = locked.access
            context.refreshEntity(of: mutation, from: locked)
        }
        return context
    }

    /// The channels of the entities about which ``choose(by:_:waiting:now:)`` decides.
    ///
    /// Only decisions about forwarded mutations depend on the user's channels.
    public func channelsOfHeads(
        by planner: DispatchPlanner,
        _ entities: [UUID: EntityTable],
        now: Timestamp
    ) -> [ChannelID] {
        guard let organization else { return [] }
        return (window?.due ?? [head]).flatMap { found -> [ChannelID] in
            guard case .mutation(let head, let type, let mappings, let entity) = found, type.isForwarded,
                type.visibility == .channels
            else { return [] }
            let surroundings = context(of: head, type, mappings, entity, organization, entities, now)
            let required = DispatchDecision(head, surroundings, by: planner).requiredChannels ?? []
            return (surroundings.entity?.channels ?? []) + required
        }
    }

    /// Whether a mutation before this position was released after the head was read.
    private func isPassed(_ position: Int64) -> Bool { lowestReleased.map { $0 < position } ?? false }

    private func action(of head: QueuedMutation, _ decision: DispatchPlanner.Decision, _ now: Timestamp) -> LaneAction {
        switch decision {
        case .hold(let until): return release(at: until)
        case .fail(let outcome): return decide(head, outcome, version: nil)
        case .conflict(let outcome, let version): return decide(head, outcome, version: version)
        case .run(let dispatch):
            if request.releases { return release(at: now) }
            lane.markInFlight(dispatch.mutation.id)
            return .run(dispatch)
        }
    }

    /// Ends the turn of a mutation that is not run, because it can never run or is in conflict with the feed.
    private func decide(_ head: QueuedMutation, _ outcome: Outcome, version: Int64?) -> LaneAction {
        outcomes = [LaneOutcome(mutation: head, from: .pending, outcome: outcome, version: version)]
        finish(outcomes[0])
        return proceed(unblocking: unfinished)
    }

    // MARK: - Several in flight

    /// Starts the mutations that are due and may run while others are in flight (product rule 19).
    private func start(
        from window: LaneWindow,
        _ planner: DispatchPlanner,
        _ entities: [UUID: EntityTable],
        _ waiting: Set<EntityKey>,
        _ now: Timestamp
    ) -> LaneAction {
        let isPassed = lowestReleased.map { $0 < searchedFrom } ?? false
        place(window)
        let blockers = blockers
        if !blockers.isEmpty || isPassed || lane.isSearched {
            lane.markInFlight(flights.first?.id)
            return start([], unblocking: blockers, isIncomplete: true, due: nil)
        }
        var starts = Starts(due: dueAgain(window, now), busy: Set(flights.compactMap(\.entity)))
        if let pause = pauseOfLane { starts.delay(until: now.adding(seconds: pause)) }
        if let organization, mayStart {
            var (room, retried) = (room, retriedRoom(window, organization))
            for found in window.due where room > 0 {
                let mayStart = !found.isRetried || retried > 0
                consider(found, mayStart, organization, planner, entities, waiting, now, &starts)
                guard mayStart else { continue }
                room -= 1
                if found.isRetried { retried -= 1 }
            }
        }
        lane.markInFlight(flights.first?.id ?? starts.dispatches.first?.mutation.id)
        // further mutations may be due, because some mutations ended without being sent
        let isIncomplete = !outcomes.isEmpty
        if flights.isEmpty, starts.dispatches.isEmpty, !isIncomplete {
            if lane.haltedBy != nil { return release(at: nil) }
            return release(at: request.releases && !window.due.isEmpty ? now : starts.due)
        }
        return start(starts.dispatches, unblocking: unfinished, isIncomplete: isIncomplete, due: starts.due)
    }

    private struct Starts {
        var dispatches: [Dispatch] = []
        /// The earliest time at which one of the delayed mutations may start; nil if no mutation waits for a time.
        var due: Timestamp?
        /// Entities of mutations that are in flight or that come earlier in the queue.
        var busy: Set<EntityKey>

        mutating func delay(until moment: Timestamp) { due = due.map { min($0, moment) } ?? moment }
    }

    /// The maximum number of retried mutations that the step may start.
    private func retriedRoom(_ window: LaneWindow, _ organization: Organization) -> Int {
        let most = request.progress?.retriedLimit(in: organization) ?? 1
        let others = window.due.count { !$0.isRetried }
        return max(most - flights.count { $0.isRetried }, room - others)
    }

    /// The time for which no mutation of the lane may be started, in seconds; nil if mutations may be started.
    private var pauseOfLane: Double? {
        guard organization?.status == .active else { return Self.pause }
        return isClosed ? Self.closedPause : nil
    }

    private func dueAgain(_ window: LaneWindow, _ now: Timestamp) -> Timestamp? {
        guard window.isFull else { return window.nextRetryAt }
        let limit = now.adding(seconds: LaneWindow.longestWait)
        return window.nextRetryAt.map { min($0, limit) } ?? limit
    }

    /// Starts a mutation if possible. If the mutation may not start now, later mutations of the same entity may not
    /// start, either.
    private func consider(
        _ found: FoundHead,
        _ mayStart: Bool,
        _ organization: Organization,
        _ planner: DispatchPlanner,
        _ entities: [UUID: EntityTable],
        _ waiting: Set<EntityKey>,
        _ now: Timestamp,
        _ starts: inout Starts
    ) {
        guard case .mutation(let mutation, let type, let mappings, let entity) = found else {
            // this gateway cannot decrypt the mutation
            if case .sealed = found { starts.delay(until: now.adding(seconds: Self.pause)) }
            return
        }
        let surroundings = context(of: mutation, type, mappings, entity, organization, entities, now)
        if let id = surroundings.serverID(of: mutation) {
            guard starts.busy.insert(EntityKey(type: type.name, id: id.text)).inserted else { return }
        }
        guard mayStart else { return starts.delay(until: now.adding(seconds: Self.retriedPause)) }
        if surroundings.mustWait(mutation, for: waiting) {
            return starts.delay(until: now.adding(seconds: Self.parkedPause))
        }
        switch planner.decide(mutation, surroundings, now: now, heldUntil: request.heldUntil) {
        case .hold(let until): starts.delay(until: until)
        case .fail(let outcome): end(mutation, outcome, version: nil)
        case .conflict(let outcome, let version): end(mutation, outcome, version: version)
        case .run(let dispatch): starts.dispatches.append(dispatch)
        }
    }

    /// Ends the turn of a mutation that is not sent.
    private func end(_ mutation: QueuedMutation, _ outcome: Outcome, version: Int64?) {
        let decided = LaneOutcome(mutation: mutation, from: .pending, outcome: outcome, version: version)
        outcomes.append(decided)
        finish(decided)
    }

    private func place(_ window: LaneWindow) {
        let flown = flights.map(\.position).min() ?? .max
        let lowest = min(lowestReleased ?? .max, flown)
        if let first = window.first {
            lane.setHead(to: min(first.position, lowest), queuedSince: first.acceptedAt)
        } else if !flights.isEmpty || lowestReleased != nil {
            lane.setHead(to: min(lane.nextPosition, lowest), queuedSince: lane.queue.since)
        } else {
            if lane.queue.count != 0 {
                note = lane.repairCounters()
                if lane.isSearched { return }
            }
            lane.setHead(to: lane.nextPosition, queuedSince: nil)
        }
    }

    private func start(
        _ dispatches: [Dispatch],
        unblocking blockers: [UUID],
        isIncomplete: Bool,
        due: Timestamp?
    ) -> LaneAction {
        .start(dispatches, token: lane.lease.token, unblocking: blockers, isIncomplete: isIncomplete, due: due)
    }

    private func proceed(unblocking blockers: [UUID] = []) -> LaneAction {
        .proceed(token: lane.lease.token, unblocking: blockers)
    }

    private func release(at moment: Timestamp?) -> LaneAction {
        lane.release(at: moment)
        return .released(readyAt: moment)
    }
}
