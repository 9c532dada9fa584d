import DequeModule
import FoundationEssentials
import Logging
import Metrics
import NIOCore
import NIOPosix
import ServiceLifecycle
import SyncModel
import SyncStore
import Synchronization

/// All listeners to events.
///
/// Listeners without events cause no work. A few workers serve the listeners that have events, a few pages at a time.
/// Therefore a push with thousands of listeners does not exhaust the memory or the database.
final class EventHub: Service {
    /// The number of listeners that are served at the same time: half of the default size of the connection pool.
    static let workers = 4

    private let store: Store
    private let authenticator: Authenticator
    private let configuration: HTTPConfiguration
    private let budget: FairBudget
    /// Counts listeners that are refused because the maximum number is reached, and creates the problem for them.
    let overload = Overload(.listeners)
    private let listening = Mutex(Listening())
    private let due = AsyncStream<EventSubscriber>.makeStream()
    private let connected = Meter(label: HTTPMetrics.eventStreams)
    private let ends: [EventStreamEnd: Counter]

    init(store: Store, authenticator: Authenticator, configuration: HTTPConfiguration) {
        self.store = store
        self.authenticator = authenticator
        self.configuration = configuration
        budget = FairBudget(.listeners, limit: configuration.heldEventBytes, label: HTTPMetrics.heldEventBytes)
        ends = Dictionary(
            uniqueKeysWithValues: EventStreamEnd.allCases.map {
                ($0, Counter(label: HTTPMetrics.eventStreamEnds, dimensions: [("reason", $0.rawValue)]))
            }
        )
    }

    private struct Listening {
        var subscribers: [ObjectIdentifier: EventSubscriber] = [:]
        /// The listeners of each user, in the order of arrival.
        var ofUser: [LaneKey: [EventSubscriber]] = [:]
        var registry = ListenerRegistry()
        var isClosed = false
    }

    /// Whether an organization can have one more listener.
    func hasRoom(for organization: UUID) -> Bool {
        listening.withLock { $0.registry.hasRoom(for: organization, limit: configuration.maximumListeners) }
    }

    /// Adds a listener on a socket to which nothing has been written yet, not even the response's head.
    func adopt(_ socket: SocketHandover, _ caller: Caller, from cursor: EventCursor) async throws {
        let now = ContinuousClock.now
        let state = SubscriberState(cursor: cursor, now: now, end: now + longest(caller))
        let channel = try await ClientBootstrap(group: socket.eventLoop)
            .channelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: 64))
            .channelOption(.maxMessagesPerRead, value: 1)
            .channelOption(.writeBufferWaterMark, value: .init(low: 1_024, high: 4_096))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let subscriber = EventSubscriber(
                        caller,
                        channel: channel,
                        state: state,
                        budget: self.budget,
                        onWork: { [due = self.due.continuation] in due.yield($0) },
                        onEnd: { [weak self] subscriber, end in
                            self?.ends[end]?.increment()
                            self?.remove(subscriber)
                        }
                    )
                    try channel.pipeline.syncOperations.addHandler(subscriber)
                }
            }
            .withConnectedSocket(socket.descriptor)
            .get()
        let subscriber = try await channel.eventLoop.submit {
            try channel.pipeline.syncOperations.handler(type: EventSubscriber.self)
        }.get()
        add(subscriber, from: cursor)
        do {
            try subscriber.write(socket.head + EventFrame.opening(cursor))
            due.continuation.yield(subscriber)
        } catch {
            subscriber.close(.failed)
        }
    }

    /// Serves listeners until graceful shutdown. The shutdown closes all subscriptions, so that clients reconnect to
    /// another replica.
    func run() async throws {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { try? await gracefulShutdown() }
            group.addTask { await self.runTimerLoop() }
            group.addTask { await self.runCheckLoop() }
            group.addTask { await self.work() }
            await group.next()
            group.cancelAll()
        }
        let left = listening.withLock { listening in
            listening.isClosed = true
            return Array(listening.subscribers.values)
        }
        for subscriber in left { subscriber.close(.closed) }
    }

    // MARK: - Listeners

    private func add(_ subscriber: EventSubscriber, from cursor: EventCursor) {
        store.notifier.add(subscriber, lane: subscriber.lane, feed: (subscriber.interest, cursor.feed))
        connected.increment()
        let (isClosed, oldest, candidate) = listening.withLock { listening in
            listening.subscribers[ObjectIdentifier(subscriber)] = subscriber
            listening.ofUser[subscriber.lane, default: []].append(subscriber)
            listening.registry.add(ObjectIdentifier(subscriber), of: subscriber.lane.organization)
            let ofUser = listening.ofUser[subscriber.lane] ?? []
            let candidate = listening.registry.evictionCandidate(beyond: configuration.maximumListeners)
            return (
                listening.isClosed, ofUser.count > configuration.listenersPerUser ? ofUser.first : nil,
                candidate.flatMap { listening.subscribers[$0] }
            )
        }
        // the client may have disconnected before the subscriber could be notified
        if subscriber.isOver { remove(subscriber) }
        if isClosed { subscriber.close(.closed) }
        oldest?.close(.superseded)
        if candidate !== oldest { candidate?.close(.superseded) }
    }

    private func remove(_ subscriber: EventSubscriber) {
        let isKnown = listening.withLock { listening in
            let lane = subscriber.lane
            listening.ofUser[lane]?.removeAll { $0 === subscriber }
            if listening.ofUser[lane]?.isEmpty == true { listening.ofUser[lane] = nil }
            listening.registry.remove(ObjectIdentifier(subscriber), of: lane.organization)
            return listening.subscribers.removeValue(forKey: ObjectIdentifier(subscriber)) != nil
        }
        guard isKnown else { return }
        connected.decrement()
        store.notifier.remove(subscriber, lane: subscriber.lane, feed: subscriber.interest)
    }

    /// Returns the maximum duration of a stream: the rest of the token's lifetime, but at most the maximum age.
    private func longest(_ caller: Caller) -> Duration {
        min(configuration.maximumStream, .seconds(max(0, caller.expiresAt - configuration.now().seconds)))
    }

    private func runTimerLoop() async {
        let interval = min(.seconds(1), configuration.keepAlive / 4)
        while !Task.isCancelled {
            try? await Task.sleep(for: interval)
            for subscriber in listening.withLock({ Array($0.subscribers.values) }) {
                subscriber.tick(keepAlive: configuration.keepAlive, writeTimeout: configuration.writeTimeout)
            }
        }
    }

    // MARK: - Checks of callers

    private func runCheckLoop() async {
        // callers are checked at least as often as keep-alives are sent
        let interval = min(configuration.streamCheckInterval, configuration.keepAlive)
        while (try? await Task.sleep(for: interval)) != nil {
            // after a failed check the state of the callers is unknown; the next check reads it again
            try? await check()
        }
    }

    /// Ends the streams of callers who would now be refused, or whose requests would now belong to another user.
    ///
    /// The check takes one statement for each thousand callers.
    private func check() async throws {
        var callers: [LongLivedSession: [EventSubscriber]] = [:]
        for subscriber in listening.withLock({ Array($0.subscribers.values) }) {
            if authenticator.isStillAuthorized(subscriber.caller) {
                let name = subscriber.caller.tokenContext?.name
                callers[LongLivedSession(lane: subscriber.lane, name: name), default: []].append(subscriber)
            } else {
                subscriber.close(.refused)
            }
        }
        for lost in try await store.longLivedSessions.lost(among: Array(callers.keys)) {
            for subscriber in callers[lost] ?? [] { subscriber.close(.refused) }
        }
    }

    // MARK: - Work

    private func work() async {
        await withTaskGroup(of: Void.self) { group in
            var running = 0
            for await subscriber in due.stream {
                if running == Self.workers {
                    await group.next()
                    running -= 1
                }
                group.addTask { await self.work(for: subscriber) }
                running += 1
            }
        }
    }

    private func work(for subscriber: EventSubscriber) async {
        guard var work = subscriber.begin() else { return }
        do {
            let isAllDone = try await EventStreamBatch(store: store, authenticator: authenticator).take(
                &work,
                subscriber
            )
            subscriber.finish(left: isAllDone ? nil : work)
        } catch let problem as Problem where problem.code == .storeUnavailable || problem.code == .overloaded {
            // the client stays connected, and the work is done once the database is available again
            if work.keepsAlive { try? subscriber.write(EventFrame.keepAlive) }
            work.keepsAlive = false
            subscriber.finish(left: work, isLater: true)
        } catch is EventSubscriber.BudgetExhausted {
            subscriber.finish(left: work, isLater: true)
        } catch is AccessRevoked {
            subscriber.close(.refused)
        } catch {
            subscriber.close(.failed)
        }
    }
}

/// The listeners of each organization, in the order of arrival.
///
/// If there are too many listeners, this type decides which listener is closed. The client of a closed listener
/// reconnects to a replica, and misses no event. Therefore no capacity is reserved: one organization can use the whole
/// capacity until other organizations have listeners.
struct ListenerRegistry {
    private var listeners: [UUID: Deque<ObjectIdentifier>] = [:]
    private(set) var count = 0

    mutating func add(_ listener: ObjectIdentifier, of organization: UUID) {
        listeners[organization, default: []].append(listener)
        count += 1
    }

    mutating func remove(_ listener: ObjectIdentifier, of organization: UUID) {
        guard let place = listeners[organization]?.firstIndex(of: listener) else { return }
        listeners[organization]?.remove(at: place)
        if listeners[organization]?.isEmpty ?? true { listeners[organization] = nil }
        count -= 1
    }

    /// Whether an organization may have one more listener.
    ///
    /// This is the case if the maximum number of listeners is not reached. It is also the case if another organization
    /// has more listeners than this organization would have.
    func hasRoom(for organization: UUID, limit: Int) -> Bool {
        guard count >= limit else { return true }
        let own = listeners[organization]?.count ?? 0
        return listeners.values.contains { $0.count > own + 1 }
    }

    /// Returns the listener to close if there are more than `limit`: the oldest listener of the organization with the
    /// most listeners.
    func evictionCandidate(beyond limit: Int) -> ObjectIdentifier? {
        guard count > limit else { return nil }
        return listeners.values.max { $0.count < $1.count }?.first
    }
}
