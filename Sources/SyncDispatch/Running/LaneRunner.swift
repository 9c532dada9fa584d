import FoundationEssentials
import Logging
import Spans
import SyncModel
import SyncStore
import Synchronization

/// Runs a lane: claims it, sends a request, writes the outcome, and continues with the next mutation.
///
/// Each change in the database is a *step* (``LaneStep``). The run ends when the lane has no mutation to run, or
/// releases its place (``HostPlaces``).
struct LaneRunner: Sendable {
    /// The number of attempts to write a step while the database is unavailable, half a second apart. After the last
    /// attempt, the lane releases its place if other lanes wait.
    private static let stepAttempts = 20

    let store: LaneStore
    let inFlight: InFlightRequests
    let circuits: Circuits
    let clock: HostClock<LaneKey>
    let metrics = DispatchMetrics()
    let configuration: DispatchConfiguration
    /// This process' id, which identifies the owner of a lease.
    let worker: UUID
    let logger: Logger
    let surroundings: Surroundings

    /// The state of the dispatcher that applies to all lanes.
    struct Surroundings: Sendable {
        /// Whether the gateway shuts down: work in progress is completed, and no work is started.
        let isDraining: @Sendable () -> Bool
        /// Whether other lanes wait for the place of a lane of the organization.
        let isCrowded: @Sendable (UUID) -> Bool
        /// Called with an organization, whether its upstream is down, and the reason.
        let recordUpstream: @Sendable (UUID, _ isDown: Bool, _ reason: String?) -> Void
        /// Called with an organization's limit of running lanes.
        let noteCap: @Sendable (UUID, Int) -> Void
        let shares: LaneShares
        let wakes: LaneWakes
        let refusedBatches: RefusedBatches
        /// Runs a lane again after some seconds.
        let retry: @Sendable (LaneKey, Double) -> Void
    }

    /// - Returns: whether to run the lane again immediately.
    func run(_ lane: LaneKey) async -> Bool {
        guard await isWithinLimit(lane) else { return !surroundings.isDraining() }
        defer { surroundings.shares.setFlights(0, of: lane, requests: 0) }
        var step = LaneStep.claim
        var count = 0
        var progress = LaneProgress()
        // the action with which a concurrent run ended, and from which the lane continues
        var known: LaneAction?
        let started = ContinuousClock.now
        while true {
            let mustYield = hasUsedItsTurn(count, since: started) && surroundings.isCrowded(lane.organization)
            let result: LaneAction
            if let action = known {
                (result, known) = (action, nil)
            } else {
                prepare(&progress, of: lane)
                let releases = surroundings.isDraining() || mustYield
                do throws(Problem) {
                    guard let written = try await write(step, of: lane, releases: releases, progress) else {
                        return false
                    }
                    result = written
                } catch {
                    logUnwritten(step, lane, error)
                    // the lane must run again, because it may be leased to this process, and no other process finds it
                    // before the lease ends
                    return !surroundings.isDraining()
                }
                progress.step += 1
                complete(step, result)
                if result.dispatches.count < 2 { surroundings.shares.setFlights(0, of: lane, requests: 1) }
            }
            switch result {
            case .start:
                let end = await runConcurrently(lane, from: result, progress, since: started)
                guard let next = end.next else { return end.isDue }
                (known, progress) = (next, end.progress)
            case .run(let dispatch):
                count += 1
                step = await run(dispatch)
            case .proceed(let token, let unblocking):
                step = .proceed(token: token, unblocking: unblocking)
            case .released(let readyAt):
                return mustYield && readyAt.map { $0 <= configuration.now() } ?? false
            case .lost:
                recordLost(step, lane)
                return false
            }
        }
    }

    /// Records the limits of the lane's organization before the lane is claimed, and returns whether the lane may run.
    ///
    /// Without this check, the other lanes of the organization would wait until the upstream has answered the first
    /// lane. And lanes that start together after `max_concurrency` was lowered would exceed the new limit.
    private func isWithinLimit(_ lane: LaneKey) async -> Bool {
        let organization: Organization?
        do throws(Problem) {
            organization = try await store.organization(lane.organization)
        } catch {
            // the lane's first step reports the problem
            return true
        }
        guard let organization else { return true }
        noteCap(of: organization, circuits.concurrency(of: lane.organization))
        return surroundings.shares.isWithin(Self.cap(of: organization), lane.organization)
    }

    func hasUsedItsTurn(_ count: Int, since started: ContinuousClock.Instant) -> Bool {
        count >= configuration.burst || count > 0 && started.duration(to: .now) >= configuration.turn
    }

    // MARK: - Steps

    /// Writes a step, and retries while the database is unavailable.
    ///
    /// Without retries, the outcome of a request would be lost, and the lane would not run until its lease ends.
    ///
    /// - Parameter starts: the maximum number of requests that the step may start.
    /// - Returns: nil if the lane was not claimed because the upstream's `requests_per_second` allows no request yet.
    func write(
        _ step: LaneStep,
        of lane: LaneKey,
        releases: Bool,
        starts: Int = 1,
        _ progress: LaneProgress
    ) async throws(Problem) -> LaneAction? {
        var attempt = 1
        var progress = progress
        let room = progress.room
        while true {
            let permit = circuits.requestPermit(for: lane)
            progress.isProbe = permit == .probe
            if let limit = circuits.concurrency(of: lane.organization) {
                progress.room = min(room, max(0, limit - surroundings.shares.flights(of: lane.organization)))
            } else {
                progress.room = room
            }
            var heldUntil = permit.end
            let askedAt = configuration.now()
            let taken =
                heldUntil == nil ? await store.rates.take(upTo: starts, of: lane.organization, progress) : nil
            let tokens = taken?.count
            if let taken {
                progress.room = min(progress.room, taken.count)
                if let pause = taken.pause {
                    metrics.throttle()
                    if permit == .probe { circuits.release(lane.organization) }
                    heldUntil = askedAt.adding(seconds: pause)
                    if progress.flights.isEmpty { surroundings.retry(lane, pause) }
                    // the lane stays due, for this replica and for others
                    if case .claim = step { return nil }
                }
            }
            do throws(Problem) {
                let action = try await store.step(
                    step,
                    of: lane,
                    worker: worker,
                    heldUntil: heldUntil,
                    releases: releases,
                    progress: progress
                )
                if permit == .probe, !action.sends { circuits.release(lane.organization) }
                if let tokens { store.rates.release(tokens - action.requests, of: lane.organization) }
                return action
            } catch {
                if let tokens { store.rates.release(tokens, of: lane.organization) }
                if permit == .probe { circuits.release(lane.organization) }
                guard isWorthwhile(attempt, of: step, lane) else { throw error }
                // while no other lane needs the place, the number of attempts is unlimited; the failure is logged at
                // intervals
                if attempt.isMultiple(of: Self.stepAttempts) { logUnwritten(step, lane, error) }
                attempt += 1
                try? await Task.sleep(for: .milliseconds(Int.random(in: 250...750)))
            }
        }
    }

    /// Whether to attempt a step again.
    private func isWorthwhile(_ attempt: Int, of step: LaneStep, _ lane: LaneKey) -> Bool {
        if Task.isCancelled { return false }
        if surroundings.isDraining() {
            if case .claim = step { return false }
            return attempt < Self.stepAttempts
        }
        return attempt < Self.stepAttempts || !surroundings.isCrowded(lane.organization)
    }

    func run(_ dispatch: Dispatch) async -> LaneStep {
        noteCap(of: dispatch.organization, circuits.concurrency(of: dispatch.lane.organization))
        guard case .upstream(let request, let settings) = dispatch.destination else {
            if dispatch.organization.upstream == nil { clock.recordNoHost(of: dispatch.lane.organization) }
            return .apply(dispatch)
        }
        let resends = Int(dispatch.attempts) - 1
        let sent = await send(request, of: request.bodyBytes ?? 0, to: settings, for: dispatch, resends: resends)
        guard let sent else { return .settle(dispatch, Outcome(ofUnsent: dispatch)) }
        let outcome = await outcome(of: sent.answer, to: dispatch, request, sentAt: sent.at, sent.started)
        sent.endSpan(outcome.kind.rawValue)
        record(outcome, of: dispatch, took: ContinuousClock.now - sent.started)
        return .settle(dispatch, outcome)
    }

    /// Reports the number of lanes of an organization that may run at the same time.
    ///
    /// While the organization's upstream recovers from an outage, this number is smaller than the organization's own
    /// limit.
    func noteCap(of organization: Organization, _ concurrency: Int?) {
        let (cap, settings) = (Self.cap(of: organization), organization.settings)
        let perLane = settings.order == .dependencies ? settings.maxInFlightPerUser : 1
        surroundings.shares.setLimits(organization.id, requests: cap, perLane: perLane)
        surroundings.noteCap(organization.id, min(cap, concurrency ?? cap))
    }

    private static func cap(of organization: Organization) -> Int {
        organization.upstream?.maximumConcurrency ?? LaneScheduler.defaultCap
    }

    /// Whether the lane's lease leaves enough time for the request.
    private func canBeSent(_ dispatch: Dispatch) -> Bool {
        if dispatch.canBeSent(at: configuration.now()) { return true }
        // the next step shows whether another worker has the lane
        circuits.release(dispatch.lane.organization)
        logger.notice(
            "Request was not sent because the lane's lease is about to expire",
            metadata: metadata(dispatch.lane, dispatch.mutation)
        )
        return false
    }

    /// An answer, and the time at which its request was sent.
    struct SentRequest {
        let answer: UpstreamAnswer
        let at: Timestamp
        let started: ContinuousClock.Instant
        /// The attempt's span, which the caller must end; nil if the attempt is not recorded.
        let span: GatewaySpan?

        /// - Parameter outcome: the kind of the mutation's outcome, or the result of a batch.
        func endSpan(_ outcome: String) {
            span?.set(.outcome, outcome)
            span?.end(answer)
        }
    }

    /// Sends a request once there is memory for its body. A lane that waits for memory releases its place, like a lane
    /// that awaits a response.
    ///
    /// - Parameters:
    ///   - request: evaluated after the memory was reserved.
    ///   - bytes: the bytes of the body.
    ///   - dispatch: a mutation of the request. All of its mutations have the same lease.
    ///   - resends: the number of earlier attempts, for the span; 0 for a batch.
    /// - Returns: nil if the request cannot be sent now.
    func send(
        _ request: @autoclosure () -> UpstreamRequest,
        of bytes: Int,
        to settings: UpstreamSettings,
        for dispatch: Dispatch,
        resends: Int = 0
    ) async -> SentRequest? {
        let lane = dispatch.lane
        let ticket = clock.begin(lane, of: lane.organization)
        var elapsed: Duration?
        defer { clock.end(ticket, took: elapsed) }
        // the body is in memory twice: in the request, and in the buffer of the connection
        let isFast = clock.isFast(lane.organization)
        guard let memory = await inFlight.reserve(2 * bytes, for: lane, isFast: isFast) else {
            circuits.release(lane.organization)
            return nil
        }
        defer { withExtendedLifetime(memory) {} }
        guard canBeSent(dispatch) else { return nil }
        let (sentAt, started) = (configuration.now(), ContinuousClock.now)
        var request = request()
        let span = Spans.attempt(request, settings, resends: resends)
        request.span = span?.context
        request.isUpstreamFast = isFast
        let answer = await inFlight.send(request, to: settings)
        elapsed = ContinuousClock.now - started
        return SentRequest(answer: answer, at: sentAt, started: started, span: span)
    }

    /// Returns the outcome of a mutation from the answer to its request, which was sent at `sentAt`.
    func outcome(
        of answer: UpstreamAnswer,
        to dispatch: Dispatch,
        _ request: UpstreamRequest,
        sentAt: Timestamp,
        _ started: ContinuousClock.Instant
    ) async -> Outcome {
        let elapsed = ContinuousClock.now - started
        var outcome: Outcome
        if inFlight.isGivenUp, case .unknown = answer {
            outcome = OutcomePlanner(policy: configuration.policy).abandoned(dispatch)
        } else {
            outcome = OutcomePlanner(policy: configuration.policy).outcome(
                of: answer,
                to: dispatch,
                othersSucceeded: await haveOthersSucceeded(answer, dispatch, request),
                now: configuration.now(),
                jitter: .random(in: 0...1)
            )
        }
        if case .response(let response) = answer { outcome.room = response.room }
        outcome.attempt = AttemptRecord(of: outcome, to: dispatch, answer, sentAt: sentAt, took: elapsed)
        return outcome
    }

    /// Whether the upstream has accepted another mutation since it first refused this one.
    ///
    /// Returns false if this cannot be determined. The mutation then continues to wait for such a success.
    private func haveOthersSucceeded(
        _ answer: UpstreamAnswer,
        _ dispatch: Dispatch,
        _ request: UpstreamRequest
    ) async -> Bool {
        guard answer.mayNeedOperator, let hold = dispatch.mutation.hold else { return false }
        do throws(Problem) {
            return try await store.hasSucceeded(
                in: dispatch.lane.organization,
                since: hold.since,
                timeout: request.timeout
            )
        } catch {
            logger.debug("Mutations of other users cannot be read", metadata: ["reason": "\(error.detail)"])
            return false
        }
    }

    // MARK: - Metrics and logs

    /// - Parameter isShared: whether the answer was already recorded for another part of the batch.
    func record(_ outcome: Outcome, of dispatch: Dispatch, took elapsed: Duration, isShared: Bool = false) {
        metrics.attempt(outcome.kind, took: elapsed)
        let recorded = isShared ? nil : circuits.record(outcome.kind, of: dispatch.lane)
        if let concurrency = recorded?.concurrency { noteCap(of: dispatch.organization, concurrency) }
        let change = recorded?.change
        if change == .opened {
            surroundings.recordUpstream(dispatch.lane.organization, true, outcome.kind.rawValue)
        } else if !isShared, outcome.kind.isResponsive {
            surroundings.recordUpstream(dispatch.lane.organization, false, nil)
        }
        if let change {
            let isOpen = change == .opened
            logger.log(
                level: isOpen ? .warning : .notice,
                isOpen ? "Circuit opened: requests to this upstream are paused" : "Circuit closed",
                metadata: metadata(dispatch.lane, dispatch.mutation)
            )
        }
        let isFailure = outcome.status != .succeeded
        let level: Logger.Level = isFailure ? .warning : .debug
        guard logger.logLevel <= level else { return }
        var metadata = metadata(
            dispatch.lane,
            dispatch.mutation,
            [
                "entity_type": "\(dispatch.mutation.entity.type)", "outcome": "\(outcome.kind.rawValue)",
                "attempt": "\(dispatch.attempts)", "becomes": "\(outcome.status.rawValue)",
                "duration_ms": "\(Double(elapsed.nanoseconds / 1_000) / 1_000)",
            ]
        )
        if let code = outcome.responseStatus ?? outcome.lastErrorCode { metadata["status"] = "\(code)" }
        if let due = outcome.nextRetryAt { metadata["next_retry_at"] = "\(due.rfc3339)" }
        logger.log(level: level, isFailure ? "Attempt failed" : "Attempt succeeded", metadata: metadata)
    }

    /// Counts the mutations whose final outcomes a step has committed.
    func complete(_ step: LaneStep, _ action: LaneAction) {
        if case .lost = action { return }
        guard case .settle(let results) = step else { return }
        for result in results where result.outcome.status.isFinal {
            let acceptedAt = result.dispatch.mutation.acceptedAt
            metrics.completed(after: configuration.now().microseconds - acceptedAt.microseconds)
        }
    }

    func logUnwritten(_ step: LaneStep, _ lane: LaneKey, _ problem: Problem) {
        logger.warning(
            "Lane step was not written",
            metadata: metadata(lane, step.mutation, ["reason": "\(problem.detail)"])
        )
    }

    func recordLost(_ step: LaneStep, _ lane: LaneKey) {
        // a lost claim does no harm, because no request was sent
        if case .claim = step { return }
        metrics.leaseLost()
        logger.warning(
            "Lease was lost: the outcomes of the last requests are discarded",
            metadata: metadata(lane, step.mutation)
        )
    }

    /// Returns metadata with the lane and, for a single mutation, the mutation and the trace of its requests.
    func metadata(
        _ lane: LaneKey,
        _ mutation: QueuedMutation?,
        _ more: Logger.Metadata = [:]
    ) -> Logger.Metadata {
        var metadata = more
        metadata["organization"] = "\(lane.organization.lowercasedText)"
        metadata["user"] = "\(lane.user.lowercasedText)"
        if let mutation {
            metadata["mutation"] = "\(mutation.id.lowercasedText)"
            metadata["trace_id"] = "\(mutation.trace.traceIDText)"
        }
        return metadata
    }
}

extension LaneStep {
    /// The first mutation whose outcome the step writes; nil if the step writes no outcome.
    fileprivate var mutation: QueuedMutation? {
        if case .settle(let results) = self { results.first?.dispatch.mutation } else { nil }
    }
}

extension UUID {
    /// The id in the form that the API uses.
    package var lowercasedText: String { uuidString.lowercased() }
}

extension CircuitBreaker.Permit {
    /// The time at which the lane may request a permit again; nil if it may send now.
    fileprivate var end: Timestamp? {
        if case .wait(let until) = self { until } else { nil }
    }
}

extension Outcome.Kind {
    /// Whether the outcome shows that the upstream works.
    var isResponsive: Bool {
        switch self {
        case .succeeded, .discarded, .conflict, .overridden, .rejected: true
        case .deferred, .serverError, .unreachable, .misconfigured, .refused, .abandoned: false
        }
    }
}

extension LaneAction {
    /// Whether a request goes to an upstream.
    fileprivate var sends: Bool { requests > 0 }

    /// The number of requests that go to an upstream.
    fileprivate var requests: Int {
        dispatches.count { if case .upstream = $0.destination { true } else { false } }
    }
}
