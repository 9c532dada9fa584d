package import FoundationEssentials
package import Logging
package import Postgres
package import SyncDispatch
package import SyncModel
package import SyncStore
import Synchronization

/// Delivers webhooks to endpoints with waiting deliveries.
///
/// A place is the right of one endpoint to be served by this replica. Organizations take turns, and no organization has
/// more than its share of the places. ``HostPlaces`` prevents endpoints that respond slowly from taking all places.
package final class WebhookDispatcher: LeasedWorker {
    /// The transport of messages: opens a session with an endpoint, sends messages, and closes the session.
    package struct WebhookTransport: Sendable {
        package let open: @Sendable (_ url: String) async -> Session

        package init(open: @escaping @Sendable (_ url: String) async -> Session) {
            self.open = open
        }

        package struct Session: Sendable {
            package let send: @Sendable (WebhookDelivery, WebhookStore.Lease) async -> WebhookAnswer
            package let close: @Sendable () async -> Void

            package init(
                send: @escaping @Sendable (WebhookDelivery, WebhookStore.Lease) async -> WebhookAnswer,
                close: @escaping @Sendable () async -> Void
            ) {
                self.send = send
                self.close = close
            }
        }
    }

    package struct Configuration: Sendable {
        /// The maximum number of endpoints to which this replica sends concurrently, not counting endpoints that
        /// respond slowly.
        package var places = 32
        /// This number times ``places`` is the maximum number of concurrent endpoints, including endpoints that respond
        /// slowly.
        package var requestsPerPlace = 4
        /// The maximum number of concurrent endpoints of one organization.
        package var maxConcurrentPerOrganization = 4
        /// The maximum number of concurrent messages to one endpoint.
        package var pipelining = 4
        /// The interval at which the worker checks whether its waiting messages must still be sent, in seconds.
        package var recheckInterval: Double = 1
        /// The number of steps after which an endpoint releases its place.
        package var turn = 8
        /// The interval at which the database is searched, in seconds, before jitter.
        package var pollInterval: Double = 1
        /// The attempts to write outcomes while the database refuses them.
        package var writeAttempts = Retry(20, milliseconds: 250...750)
        /// The time limit for messages in progress once the gateway shuts down, in seconds.
        package var grace: Double = 5
        /// The dispatcher's clock.
        package var now: TimeSource

        package init(now: @escaping TimeSource) {
            self.now = now
        }
    }

    private let store: WebhookStore
    private let post: WebhookTransport
    private let configuration: Configuration
    private let logger: Logger
    private let metrics = WebhookMetrics()
    private let upstreams = AsyncStream<UpstreamChange>.makeStream(bufferingPolicy: .bufferingNewest(1_000))
    private let known = Mutex([UUID: Bool]())
    private let unwritten = Mutex(UnwrittenOutcomes())
    package let loop: WorkerLoop<RunningHosts<WebhookKey>>

    package init(store: WebhookStore, post: WebhookTransport, configuration: Configuration, logger: Logger) {
        self.store = store
        self.post = post
        self.configuration = configuration
        self.logger = logger
        loop = WorkerLoop(
            RunningHosts(
                places: configuration.places,
                requestsPerPlace: configuration.requestsPerPlace,
                share: configuration.maxConcurrentPerOrganization
            ),
            pace: WorkerPace(
                interval: configuration.pollInterval,
                unfinished: "Due webhooks could not be queried",
                // each search continues after the last key, so endpoints that got no place do not delay the endpoints
                // after them
                resumes: true,
                grace: configuration.grace
            ),
            logger: logger
        )
    }

    // MARK: - States of upstreams

    private struct UpstreamChange: Sendable {
        let organization: UUID
        let isDown: Bool
        let reason: String?
    }

    /// Records that an upstream has become unavailable, or that it responds.
    ///
    /// Callers can call this method with the result of every request, because a known state is not written again.
    package func record(upstream organization: UUID, isDown: Bool, reason: String? = nil) {
        let isChange = known.withLock { known in
            guard known[organization] != isDown else { return false }
            if known.count >= 100_000 { known.removeAll() }
            known[organization] = isDown
            return true
        }
        if isChange {
            upstreams.continuation.yield(UpstreamChange(organization: organization, isDown: isDown, reason: reason))
        }
    }

    private func notify(_ news: UpstreamChange) async {
        do throws(Problem) {
            try await Retry(20, milliseconds: 250...750).run { (_: Problem, _) in
                !Task.isCancelled
            } _: { () async throws(Problem) in
                try await store.record(upstream: news.organization, isDown: news.isDown, reason: news.reason)
            }
        } catch {
            // the next request detects the change again
            known.withLock { $0[news.organization] = nil }
            logger.warning("An upstream's state was not written", metadata: ["reason": "\(error.detail)"])
        }
    }

    // MARK: - Running

    /// Delivers until graceful shutdown.
    ///
    /// A shutdown waits for the messages in flight, at most ``Configuration/grace``. Then it records their outcomes and
    /// releases every endpoint. If a message was cancelled, the next worker of its endpoint repeats it under the same
    /// id.
    package func run() async throws {
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                for await news in self.upstreams.stream { await self.notify(news) }
            }
            group.addTask {
                await self.runUntilShutdown()
                self.upstreams.continuation.finish()
            }
            await group.waitForAll()
        }
    }

    package func due(from cursor: inout (due: WebhookKey?, behind: WebhookKey?)?) async throws(Problem) -> [WebhookKey]
    {
        let (waiting, late) = (try await store.due(after: cursor?.due), try await store.behind(after: cursor?.behind))
        cursor = waiting.next == nil && late.next == nil ? nil : (waiting.next, late.next)
        let moment = configuration.now()
        let resting = unwritten.withLock { $0.resting(at: moment) }
        return Set(waiting.due + late.due).subtracting(resting).shuffled()
    }

    package func claim(_ endpoint: WebhookKey) async throws(Problem) -> WebhookStore.Lease? {
        if let lease = try await store.claim(endpoint) { return lease }
        try await store.dispose(of: endpoint)
        return nil
    }

    package func work(on lease: WebhookStore.Lease) async throws(Problem) -> Bool {
        let line = await loop.places.measuring(lease.endpoint) { await post.open(lease.url) }
        let problem = await deliver(lease, on: line)
        await line.close()
        if let problem { throw problem }
        return false
    }

    package func report(_ problem: Problem, on endpoint: WebhookKey) {
        logger.warning("Webhooks wait", metadata: Self.metadata(endpoint, ["reason": "\(problem.detail)"]))
    }

    /// The results of a step's attempts.
    private struct Results {
        var outcomes: [WebhookOutcome] = []
        var answers: [WebhookAnswer] = []
        /// The indices of answers to attempts that began before the last counted failure.
        var sameRound: Set<Int> = []
    }

    /// Sends the due deliveries, step by step.
    private func deliver(_ lease: WebhookStore.Lease, on line: WebhookTransport.Session) async -> Problem? {
        var results = Results()
        for count in 0... {
            let releases = count >= configuration.turn || loop.ends
            let step: WebhookStore.Step?
            let hasOutcomes = !results.outcomes.isEmpty
            do throws(Problem) {
                step = try await write(lease, results, releases: releases)
            } catch {
                if hasOutcomes { await rest(lease) }
                return error
            }
            if hasOutcomes { unwritten.withLock { $0.remove(lease.endpoint) } }
            guard let step else {
                metrics.leaseLost()
                logger.warning("A webhook's lease was lost", metadata: Self.metadata(lease.endpoint))
                return nil
            }
            if step.deliveries.isEmpty { return nil }
            results = await send(step, lease, on: line)
        }
        return nil
    }

    /// Pauses an endpoint after the outcomes of its deliveries could not be written. Without the outcomes, the same
    /// messages are sent again, and the pause limits how often.
    ///
    /// In this process, each pause is twice as long as the last. The failure is also recorded in the endpoint's health,
    /// if the database permits.
    private func rest(_ lease: WebhookStore.Lease) async {
        let moment = configuration.now()
        let until = unwritten.withLock { $0.add(lease.endpoint, at: moment) }
        logger.error(
            "Outcomes of webhooks were not written; the messages will be sent again",
            metadata: Self.metadata(lease.endpoint, ["retry_at": "\(until.rfc3339)"])
        )
        let answer = WebhookAnswer.none("the gateway could not write the outcomes of deliveries")
        // the step keeps the lease, so that no other gateway sends the messages immediately
        _ = try? await store.step(lease, answers: [answer])
    }

    /// Writes a step, and retries while the database is unavailable. Deliveries without a recorded outcome would be
    /// sent again.
    private func write(
        _ lease: WebhookStore.Lease,
        _ results: Results,
        releases: Bool
    ) async throws(Problem) -> WebhookStore.Step? {
        try await loop.write(configuration.writeAttempts) { () async throws(Problem) in
            try await store.step(
                lease,
                results.outcomes,
                answers: results.answers,
                sameRound: results.sameRound,
                releases: releases
            )
        }
    }

    /// Sends the deliveries of a step, a few at a time, until the endpoint must pause.
    private func send(
        _ step: WebhookStore.Step,
        _ lease: WebhookStore.Lease,
        on line: WebhookTransport.Session
    ) async -> Results {
        let isProbe = step.health.isOpen
        var health = step.health
        var results = Results()
        // the number of counted failures; a failure is not counted if its attempt began before the last counted failure
        var round = 0
        var deliveries = step.deliveries
        var checkedAt = ContinuousClock.now
        await withTaskGroup(of: (WebhookDelivery, WebhookAnswer, Duration, Int).self) { group in
            var next = 0
            var underWay = 0
            while true {
                let moment = configuration.now()
                let mayGoOn =
                    !loop.ends && !health.rests(at: moment) && !(isProbe && next > 0)
                    // in the last 60 s of the lease nothing is sent, because another gateway could send a message again
                    // while it is still in flight here
                    && step.leasedUntil.map { moment < $0.adding(seconds: -60) } ?? false
                if mayGoOn, underWay < configuration.pipelining, next < deliveries.count {
                    if .now - checkedAt >= .seconds(configuration.recheckInterval) {
                        let waiting = await stillWaiting(deliveries[next...], lease)
                        deliveries.removeSubrange(next...)
                        deliveries += waiting
                        checkedAt = .now
                        if waiting.isEmpty { continue }
                    }
                    let delivery = deliveries[next]
                    (next, underWay) = (next + 1, underWay + 1)
                    group.addTask { [round] in
                        let began = ContinuousClock.now
                        let answer = await self.loop.places.measuring(lease.endpoint) {
                            await self.loop.send { await line.send(delivery, lease) }
                        }
                        return (delivery, answer, .now - began, round)
                    }
                    continue
                }
                guard let (delivery, answer, elapsed, begunIn) = await group.next() else { break }
                underWay -= 1
                // the message was cancelled because this process ends, which shows nothing about the endpoint
                if case .none = answer, loop.ends { continue }
                let now = configuration.now()
                let isSameRound = begunIn < round
                health.record(answer, now: now, jitter: 0, isSameRound: isSameRound)
                if answer.error != nil, !isSameRound { round += 1 }
                let outcome = WebhookSchedule.outcome(
                    of: delivery,
                    answer,
                    now: now,
                    jitter: .random(in: 0...1)
                )
                record(delivery, outcome, elapsed, lease.endpoint)
                results.outcomes.append(outcome)
                if isSameRound { results.sameRound.insert(results.answers.count) }
                results.answers.append(answer)
            }
            if health.isOpen { giveUpLongUnsent(deliveries[next...], lease, &results) }
        }
        return results
    }

    /// Gives up deliveries that have waited for three days for an endpoint that does not respond.
    private func giveUpLongUnsent(
        _ deliveries: ArraySlice<WebhookDelivery>,
        _ lease: WebhookStore.Lease,
        _ results: inout Results
    ) {
        let moment = configuration.now()
        for delivery in deliveries {
            guard let outcome = WebhookSchedule.outcome(ofUnsent: delivery, now: moment) else { continue }
            record(delivery, outcome, nil, lease.endpoint)
            results.outcomes.append(outcome)
        }
    }

    /// Returns the deliveries that are still to be sent; an empty array if the check fails.
    private func stillWaiting(
        _ deliveries: ArraySlice<WebhookDelivery>,
        _ lease: WebhookStore.Lease
    ) async -> [WebhookDelivery] {
        let waiting = try? await store.stillWaiting(deliveries.map(\.id), lease)
        return deliveries.filter { waiting?.contains($0.id) ?? false }
    }

    // MARK: - Metrics and logs

    private func record(
        _ delivery: WebhookDelivery,
        _ outcome: WebhookOutcome,
        _ elapsed: Duration?,
        _ endpoint: WebhookKey
    ) {
        metrics.attempt(outcome.status, took: elapsed)
        let isGood = outcome.status == .delivered
        var metadata = Self.metadata(
            endpoint,
            [
                "webhook_id": "\(delivery.messageID)", "event": "\(delivery.event.rawValue)",
                "sequence": "\(delivery.sequence)", "attempt": "\(outcome.attemptCount)",
                "becomes": "\(outcome.status.rawValue)",
            ]
        )
        if let elapsed { metadata["duration_ms"] = "\(elapsed.nanoseconds / 1_000_000)" }
        if let error = outcome.lastError { metadata["reason"] = "\(error)" }
        if outcome.status == .waiting { metadata["next_attempt_at"] = "\(outcome.nextAttempt.rfc3339)" }
        logger.log(
            level: isGood ? .debug : .warning,
            isGood ? "Webhook delivered" : "Webhook was not delivered",
            metadata: metadata
        )
    }

    private static func metadata(_ endpoint: WebhookKey, _ more: Logger.Metadata = [:]) -> Logger.Metadata {
        var metadata = more
        metadata["organization"] = "\(endpoint.organization.lowercasedText)"
        metadata["webhook"] = "\(endpoint.id.lowercasedText)"
        return metadata
    }
}
