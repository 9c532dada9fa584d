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

    /// The maximum time between two steps of a lane with requests in flight, in seconds. Such steps find mutations that
    /// another replica has accepted.
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
            surroundings.shares.setFlights(0, of: lane)
        }
        return await withDiscardingTaskGroup { group in
            var (action, progress) = (first, progress)
            var (count, flights) = (0, [UUID: LaneFlight]())
            var iterator = events.stream.makeAsyncIterator()
            while true {
                guard case .start(let dispatches, let token, let unblocking, let isIncomplete, let due) = action else {
                    return end(lane, action, progress)
                }
                for dispatch in dispatches {
                    count += 1
                    flights[dispatch.mutation.id] = LaneFlight(of: dispatch)
                }
                let batch = dispatches.first.flatMap { progress.batch(in: $0.organization) }
                start(dispatches, by: batch, events, in: &group)
                surroundings.shares.setFlights(flights.count, of: lane)
                var step = LaneStep.proceed(token: token, unblocking: unblocking)
                if !isIncomplete {
                    let pause = due.map { Double($0.microseconds - configuration.now().microseconds) / 1_000_000 }
                    // more mutations may be due than the upstream's limit has allowed so far
                    let isSingle = !dispatches.isEmpty && batch == nil
                    let short = isSingle ? store.rates.pause(of: lane.organization, lanes: progress.lanes) : nil
                    let rest = short ?? Self.interval
                    let timer = events.wake(after: min(rest, pause ?? rest))
                    defer { timer.cancel() }
                    switch await events.next(&iterator) {
                    case .finished(let settling): step = settling
                    case .due: break
                    case nil: return ConcurrentEnd(progress: progress)
                    }
                    for dispatch in step.dispatches { flights[dispatch.mutation.id] = nil }
                }
                progress.flights = flights.values.sorted { $0.position < $1.position }
                (progress.lanes, progress.room) = surroundings.shares.share(of: lane.organization)
                progress.batchRefusal = surroundings.refusedBatches.refusal(of: lane.organization)
                let mustYield = hasUsedItsTurn(count, since: started) && surroundings.isCrowded(lane.organization)
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

/// Counts the requests of lanes that have several requests in flight, so that these lanes share the gateway's capacity.
final class LaneShares: Sendable {
    private struct State {
        /// The number of running lanes, by organization, including lanes with a single request.
        var lanes: [UUID: Int] = [:]
        var flights: [LaneKey: Int] = [:]
        var flightsOfOrganizations: [UUID: Int] = [:]
        var total = 0
    }

    /// The maximum number of requests of all these lanes together. Each lane may have one request in addition.
    private let limit: Int
    private let state = Mutex(State())

    init(limit: Int = 4_096) {
        self.limit = limit
    }

    func begin(_ organization: UUID) { state.withLock { $0.lanes[organization, default: 0] += 1 } }

    func end(_ organization: UUID) {
        state.withLock { state in
            let count = (state.lanes[organization] ?? 1) - 1
            state.lanes[organization] = count > 0 ? count : nil
        }
    }

    /// Sets the number of a lane's requests in flight.
    func setFlights(_ count: Int, of lane: LaneKey) {
        state.withLock { state in
            let change = count - (state.flights[lane] ?? 0)
            state.flights[lane] = count > 0 ? count : nil
            let ofOrganization = (state.flightsOfOrganizations[lane.organization] ?? 0) + change
            state.flightsOfOrganizations[lane.organization] = ofOrganization > 0 ? ofOrganization : nil
            state.total += change
        }
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
