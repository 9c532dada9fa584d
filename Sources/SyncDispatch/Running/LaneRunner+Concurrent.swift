import FoundationEssentials
import SyncModel
import SyncStore
import Synchronization

/// Runs a lane with several mutations in flight (product rule 19).
extension LaneRunner {
    /// The end of a concurrent run of a lane.
    struct ConcurrentEnd {
        /// The action from which the lane continues with one mutation at a time; nil if the lane was released or lost.
        var next: LaneAction?
        /// Whether to run the lane again immediately.
        var isDue = false
        var progress: LaneProgress
    }

    /// The maximum time between two steps (``LaneStep``) of a lane with requests in flight, in seconds. Such steps find
    /// mutations that another replica has accepted.
    private static let interval: Double = 1
    /// The maximum number of requests that one step starts if the upstream has `requests_per_second`.
    private static let burst = 8

    func runConcurrently(
        _ lane: LaneKey,
        from first: LaneAction,
        _ progress: LaneProgress,
        since started: ContinuousClock.Instant
    ) async -> ConcurrentEnd {
        let events = LaneEvents()
        surroundings.wakes.register(lane, events)
        defer {
            surroundings.wakes.remove(lane)
            surroundings.shares.setFlights(0, of: lane, requests: 0)
        }
        return await withDiscardingTaskGroup { group in
            var (action, progress) = (first, progress)
            var (sent, flights, isBatched) = (0, [UUID: LaneFlight](), false)
            var iterator = events.stream.makeAsyncIterator()
            while true {
                guard case .start(let dispatches, let token, let unblocking, let isIncomplete, let due) = action else {
                    return end(lane, action, progress)
                }
                for dispatch in dispatches {
                    sent += 1
                    flights[dispatch.mutation.id] = LaneFlight(of: dispatch)
                }
                let batch = dispatches.first.flatMap { progress.batch(in: $0.organization) }
                start(dispatches, by: batch, events, in: &group)
                // other requests start only after all batches have ended, because a batch counts its own requests
                if !dispatches.isEmpty { isBatched = batch != nil }
                count(flights, areBatched: isBatched, of: lane)
                var step = LaneStep.proceed(token: token, unblocking: unblocking)
                if !isIncomplete {
                    // more mutations may be due than the upstream's limit has allowed so far
                    let isSingle = !dispatches.isEmpty && batch == nil
                    let short = isSingle ? store.rates.pause(of: lane.organization, lanes: progress.lanes) : nil
                    let timer = events.wake(after: pause(until: due, most: short ?? Self.interval))
                    defer { timer.cancel() }
                    switch await events.next(&iterator) {
                    case .finished(let settling): step = settling
                    case .due: break
                    case nil: return ConcurrentEnd(progress: progress)
                    }
                    for dispatch in step.dispatches { flights[dispatch.mutation.id] = nil }
                }
                progress.flights = flights.values.sorted { $0.position < $1.position }
                if flights.isEmpty { isBatched = false }
                count(flights, areBatched: isBatched, of: lane)
                prepare(&progress, of: lane, mayStart: !isBatched)
                let mustYield = hasUsedItsTurn(sent, since: started) && surroundings.isCrowded(lane.organization)
                do throws(Problem) {
                    let releases = surroundings.isDraining() || mustYield
                    let written = try await write(step, of: lane, releases: releases, starts: Self.burst, progress)
                    guard let written else { return ConcurrentEnd(progress: progress) }
                    action = written
                } catch {
                    logUnwritten(step, lane, error)
                    return ConcurrentEnd(isDue: !surroundings.isDraining(), progress: progress)
                }
                progress.step += 1
                complete(step, action)
                if case .lost = action { recordLost(step, lane) }
            }
        }
    }

    /// The number of seconds until the next step of a lane, unless a request ends before.
    private func pause(until due: Timestamp?, most: Double) -> Double {
        min(most, due.map { Double($0.microseconds - configuration.now().microseconds) / 1_000_000 } ?? most)
    }

    /// Counts a lane's mutations in flight and its requests.
    private func count(_ flights: [UUID: LaneFlight], areBatched: Bool, of lane: LaneKey) {
        surroundings.shares.setFlights(flights.count, of: lane, requests: areBatched ? 1 : flights.count)
    }

    /// Sets the limits of a lane's next step, and reserves the requests that the step may start.
    func prepare(_ progress: inout LaneProgress, of lane: LaneKey, mayStart: Bool = true) {
        let shares = surroundings.shares
        (progress.lanes, progress.room) = shares.share(of: lane.organization)
        progress.slots = mayStart ? shares.reserve(for: lane, inFlight: progress.flights.count) : 0
        progress.batchRefusal = surroundings.refusedBatches.refusal(of: lane.organization)
    }

    private func start(
        _ dispatches: [Dispatch],
        by batch: UpstreamBatch?,
        _ events: LaneEvents,
        in group: inout DiscardingTaskGroup
    ) {
        if let batch {
            group.addTask { await run(dispatches, by: batch, events.finish) }
            return
        }
        for dispatch in dispatches {
            group.addTask { events.finish([await run(dispatch)]) }
        }
    }

    private func end(_ lane: LaneKey, _ action: LaneAction, _ progress: LaneProgress) -> ConcurrentEnd {
        var progress = progress
        progress.flights = []
        switch action {
        case .released(let readyAt):
            return ConcurrentEnd(
                isDue: !surroundings.isDraining() && readyAt.map { $0 <= configuration.now() } ?? false,
                progress: progress
            )
        case .lost: return ConcurrentEnd(progress: progress)
        case .run, .proceed, .start: return ConcurrentEnd(next: action, progress: progress)
        }
    }
}

/// The events for the worker of a lane with several requests in flight.
final class LaneEvents: Sendable {
    enum Event: Sendable {
        /// Requests have outcomes, which the step writes.
        case finished(LaneStep)
        /// It is time for another step.
        case due
    }

    private struct State {
        var finished: [LaneStep] = []
        var isDue = false

        mutating func next() -> Event? {
            if let step = LaneStep.removeNext(from: &finished) { return .finished(step) }
            defer { isDue = false }
            return isDue ? .due : nil
        }
    }

    /// Wakes the worker for an event. Signals coalesce: several signals before the worker wakes are one signal.
    let stream: AsyncStream<Void>
    private let inlet: AsyncStream<Void>.Continuation
    private let state = Mutex(State())

    init() {
        (stream, inlet) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Adds the steps that write the outcomes of a request.
    func finish(_ steps: [LaneStep]) {
        state.withLock { $0.finished += steps }
        inlet.yield()
    }

    /// Wakes the worker.
    func wake() {
        state.withLock { $0.isDue = true }
        inlet.yield()
    }

    func wake(after seconds: Double) -> Task<Void, Never> {
        Task {
            try? await Task.sleep(for: .seconds(max(0, seconds)))
            if !Task.isCancelled { wake() }
        }
    }

    /// Waits for the next event. If several outcomes wait, they are returned as one event.
    ///
    /// - Returns: nil if the task is cancelled.
    func next(_ signals: inout AsyncStream<Void>.Iterator) async -> Event? {
        repeat {
            if let event = state.withLock({ $0.next() }) { return event }
        } while await signals.next() != nil
        return nil
    }
}

/// Wakes the worker of a lane with several requests in flight when the lane changes.
final class LaneWakes: Sendable {
    private let lanes = Mutex([LaneKey: LaneEvents]())

    func register(_ lane: LaneKey, _ events: LaneEvents) { lanes.withLock { $0[lane] = events } }

    func remove(_ lane: LaneKey) { lanes.withLock { $0[lane] = nil } }

    func wake(_ changed: [LaneKey]) {
        let found = lanes.withLock { lanes in lanes.isEmpty ? [] : changed.compactMap { lanes[$0] } }
        for events in found { events.wake() }
    }
}

/// Counts the requests of lanes that have several requests in flight, so that these lanes share the gateway's capacity
/// and the `max_concurrency` of their upstream.
///
/// Each running lane may have one request. Further requests are *extra*: a lane reserves them before a step. Running
/// lanes and extra requests together never exceed `max_concurrency`, unless an operator has just lowered it. While a
/// lane waits because extra requests use up the limit, no lane of its organization reserves further extra requests. So
/// the waiting lane runs after the next answer.
final class LaneShares: Sendable {
    private struct Limits {
        /// The maximum number of concurrent requests.
        var requests: Int
        /// The maximum number of concurrent requests of a lane.
        var perLane: Int
    }

    private struct State {
        /// The number of running lanes, by organization, including lanes with a single request.
        var lanes: [UUID: Int] = [:]
        var limits: [UUID: Limits] = [:]
        /// The number of each lane's extra requests, without those of batches.
        var extras: [LaneKey: Int] = [:]
        var extrasOfOrganizations: [UUID: Int] = [:]
        /// The organizations with lanes that wait because extra requests use the limit.
        var waiting: Set<UUID> = []
        var flights: [LaneKey: Int] = [:]
        var flightsOfOrganizations: [UUID: Int] = [:]
        var total = 0

        func held(by organization: UUID) -> Int {
            (lanes[organization] ?? 0) + (extrasOfOrganizations[organization] ?? 0)
        }

        /// The maximum number of requests of a lane that has `own` requests now.
        ///
        /// The lane leaves at least as many requests of its organization free as it has (product rule 16).
        func most(of organization: UUID, own: Int) -> Int {
            guard !waiting.contains(organization), let limits = limits[organization] else { return 1 }
            return max(1, min(limits.perLane, (limits.requests - held(by: organization) + own) / 2))
        }

        /// Changes the number of the organization's extra requests. Returns whether requests became free for which a
        /// lane waits.
        mutating func addExtras(_ change: Int, of organization: UUID) -> Bool {
            let count = (extrasOfOrganizations[organization] ?? 0) + change
            extrasOfOrganizations[organization] = count > 0 ? count : nil
            return change < 0 && waiting.contains(organization)
        }

        mutating func setExtras(_ count: Int, of lane: LaneKey) -> Bool {
            let change = count - (extras[lane] ?? 0)
            extras[lane] = count > 0 ? count : nil
            return addExtras(change, of: lane.organization)
        }
    }

    /// The maximum number of requests of all lanes that have several requests in flight, together. Each lane may have
    /// one request in addition.
    private let limit: Int
    private let onFree: @Sendable () -> Void
    private let state = Mutex(State())

    /// - Parameter onFree: called when a lane that waits for other lanes' extra requests may run.
    init(limit: Int = 4_096, onFree: @escaping @Sendable () -> Void = {}) {
        self.limit = limit
        self.onFree = onFree
    }

    /// The organizations with lanes that wait because extra requests use the limit.
    var waiting: Set<UUID> { state.withLock { $0.waiting } }

    /// Sets an organization's limits.
    func setLimits(_ organization: UUID, requests: Int, perLane: Int) {
        state.withLock { $0.limits[organization] = Limits(requests: max(1, requests), perLane: max(1, perLane)) }
    }

    /// Counts a lane that begins to run. If the limit does not allow the lane, it waits until ``onFree`` is called.
    ///
    /// - Returns: whether the lane may run.
    func begin(_ organization: UUID, limit: Int) -> Bool {
        state.withLock { state in
            guard state.held(by: organization) < limit else {
                state.waiting.insert(organization)
                return false
            }
            state.waiting.remove(organization)
            state.lanes[organization, default: 0] += 1
            return true
        }
    }

    /// Whether the organization's lanes and requests are within a limit.
    func isWithin(_ limit: Int, _ organization: UUID) -> Bool {
        state.withLock { $0.held(by: organization) <= limit }
    }

    func end(_ organization: UUID) {
        state.withLock { state in
            let count = (state.lanes[organization] ?? 1) - 1
            state.lanes[organization] = count > 0 ? count : nil
        }
    }

    /// Reserves requests for a lane's next step. ``setFlights(_:of:requests:)`` returns the unused requests.
    ///
    /// - Parameter count: the lane's requests in flight.
    /// - Returns: the number of requests that the step may start, at least 1 if no request is in flight.
    func reserve(for lane: LaneKey, inFlight count: Int) -> Int {
        state.withLock { state in
            let own = 1 + (state.extras[lane] ?? 0)
            let most = max(own, state.most(of: lane.organization, own: own))
            _ = state.setExtras(most - 1, of: lane)
            return max(0, most - count)
        }
    }

    /// Takes extra requests for the batches of a lane.
    ///
    /// - Returns: the number of requests, which must be returned by ``releaseExtras(_:of:)``.
    func takeExtras(upTo wanted: Int, of organization: UUID) -> Int {
        state.withLock { state in
            let taken = max(0, min(wanted, state.most(of: organization, own: 1) - 1))
            _ = state.addExtras(taken, of: organization)
            return taken
        }
    }

    func releaseExtras(_ count: Int, of organization: UUID) {
        if state.withLock({ $0.addExtras(-count, of: organization) }) { onFree() }
    }

    /// Sets the number of a lane's mutations in flight, and the number of its requests, not counting the extra requests
    /// of batches.
    func setFlights(_ count: Int, of lane: LaneKey, requests: Int) {
        let mustWake = state.withLock { state in
            let change = count - (state.flights[lane] ?? 0)
            state.flights[lane] = count > 0 ? count : nil
            let ofOrganization = (state.flightsOfOrganizations[lane.organization] ?? 0) + change
            state.flightsOfOrganizations[lane.organization] = ofOrganization > 0 ? ofOrganization : nil
            state.total += change
            return state.setExtras(max(0, requests - 1), of: lane)
        }
        if mustWake { onFree() }
    }

    /// The number of an organization's requests in flight, in lanes that have several requests in flight.
    func flights(of organization: UUID) -> Int { state.withLock { $0.flightsOfOrganizations[organization] ?? 0 } }

    /// The number of the organization's running lanes, and the number of requests that one of them may start.
    ///
    /// The number of requests is limited so that an organization never has more requests than remain free for others
    /// (product rule 16).
    func share(of organization: UUID) -> (lanes: Int, room: Int) {
        state.withLock { state in
            let own = state.flightsOfOrganizations[organization] ?? 0
            return (max(1, state.lanes[organization] ?? 1), max(0, (limit - state.total - own) / 2))
        }
    }
}
