import HTTPTypes
import Metrics
import ServiceLifecycle
import SyncModel
import SyncStore

/// `GET /v1/events`: what happens to the caller's mutations and ids, as server-sent events.
struct EventsEndpoint: Sendable {
    let store: Store
    let authenticator: Authenticator
    let configuration: HTTPConfiguration
    private let budget: ByteBudget
    private let streams = Meter(label: HTTPMetrics.eventStreams)
    private let ends = EventStreamEnds()

    init(store: Store, authenticator: Authenticator, configuration: HTTPConfiguration) {
        self.store = store
        self.authenticator = authenticator
        self.configuration = configuration
        budget = ByteBudget(limit: configuration.heldEventBytes, label: HTTPMetrics.heldEventBytes)
    }

    /// Refuses what can't be listened to; the rest is a stream.
    func listen(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        _ = try Query(of: exchange)
        let lane = LaneKey(organization: caller.organization.id, user: caller.user)
        let cursor = try await store.events.start(after: lastEventID(exchange), of: lane)
        var answer = Answer(.ok)
        answer.contentType = "text/event-stream"
        answer.headers[.cacheControl] = "no-store"
        // nginx would keep events until a buffer is full
        answer.headers[.xAccelBuffering] = "no"
        answer.stream = { output in await stream(exchange, caller, lane, cursor, output) }
        return answer
    }

    /// An empty one is what a browser sends that has seen none.
    private func lastEventID(_ exchange: Exchange) -> String? {
        exchange.headers[.lastEventID].flatMap { $0.isEmpty ? nil : $0 }
    }

    /// Runs a stream to its end. However it ends, the client connects again with the last id that it has seen.
    private func stream(
        _ exchange: Exchange,
        _ caller: Caller,
        _ lane: LaneKey,
        _ cursor: EventCursor,
        _ output: StreamOutput
    ) async {
        streams.increment()
        defer { streams.decrement() }
        let interest = FeedInterest(organization: lane.organization, user: lane.user)
        await store.wakeUps.watching(lane: lane, feed: interest) { watch in
            await withGracefulShutdownHandler {
                await ClientPresence.watch(exchange.channel) { watch.end() }
                var stream = EventStream(
                    events: store.events,
                    lane: lane,
                    interest: interest,
                    cursor: cursor,
                    output: EventOutput(output, budget: budget, channel: exchange.channel),
                    keepAlive: configuration.keepAlive,
                    end: .now + longest(caller),
                    isServed: { try await authenticator.isServed(caller) }
                )
                ends.count(await stream.run(watch))
            } onGracefulShutdown: {
                watch.end()
            }
        }
    }

    /// A stream ends with its token, and now and then in any case.
    private func longest(_ caller: Caller) -> Duration {
        min(configuration.maximumStream, .seconds(max(0, caller.expiresAt - configuration.now().seconds)))
    }
}
