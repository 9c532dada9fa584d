package import FoundationEssentials
import Postgres
import ServiceLifecycle
package import SyncModel
import Synchronization

/// Wakes tasks in this process that wait for a change by this or another replica.
///
/// These tasks are the dispatcher, which waits for lanes to claim; readers that wait for a settled mutation or a change
/// of the feed; and listeners to events.
///
/// Within the process, the wake-up is a call. Between replicas, it is a hint by NOTIFY, at most ten times a second.
/// Because a hint can be lost, all watched lanes and feeds are also polled: every fifteen seconds while hints arrive,
/// and four times a second while hints do not arrive.
package final class ChangeNotifier: Service {
    /// The time for which further hints are collected after a hint was sent.
    static let hintInterval: Duration = .milliseconds(100)
    /// The maximum number of hints that are sent together. If there are more, other replicas receive one hint to poll
    /// everything.
    static let hintsAtATime = 4
    /// The shortest polling interval while hints do not arrive. With many watches, the interval is longer.
    static let intervalWithoutHints: Duration = .milliseconds(250)
    /// The maximum number of lanes that one statement polls.
    static let lanesAtATime = 1_000

    struct State {
        var onReady: (@Sendable ([LaneKey]) -> Void)?
        var onDue: (@Sendable () -> Void)?
        var lanes = LaneWatches()
        var feeds = FeedWatches()
        /// The names of lanes and feeds whose changes have not been sent to other replicas.
        var unsent: Set<WakeName> = []
    }

    let pool: Pool
    let hints: ReplicaHints
    /// The interval between polls of everything that is watched, while hints arrive.
    let intervalWithHints: Duration
    let state = Mutex(State())
    /// Notifies the operators' views of changes.
    package let operatorChanges = OperatorChanges()
    /// Yields feeds that have changed since their last poll. Each feed is queued at most once.
    let movedFeeds = AsyncStream<UUID>.makeStream()
    /// Whether to poll everything that is watched immediately.
    let pollNow = Atomic(false)
    private let due = Throttle(.seconds(1), isDueFirst: true)
    /// The messages to other replicas. Nil is a request to send the names in `unsent`.
    private let outgoing = AsyncStream<HintMessage?>.makeStream()

    init(pool: Pool, hints: ReplicaHints, intervalWithHints: Duration) {
        self.pool = pool
        self.hints = hints
        self.intervalWithHints = intervalWithHints
    }

    // MARK: - The dispatcher

    /// Sets the callback that is called for lanes that can be claimed.
    ///
    /// The callback is called often and from any thread. Therefore it must be quick.
    package func whenReady(_ body: (@Sendable ([LaneKey]) -> Void)?) {
        state.withLock { $0.onReady = body }
    }

    /// Sets the callback that is called if another replica has more due lanes than it can run.
    package func whenDueElsewhere(_ body: (@Sendable () -> Void)?) {
        state.withLock { $0.onDue = body }
    }

    /// Notifies other replicas that this replica has more due lanes than it can run, at most once a second.
    package func notifyDue() {
        if due.isDue() { outgoing.continuation.yield(.due) }
    }

    package func ready(_ lanes: [LaneKey]) {
        guard !lanes.isEmpty else { return }
        state.withLock { $0.onReady }?(lanes)
    }

    // MARK: - Readers

    /// Signals that mutations of lanes were changed. The feeds may also have changed.
    package func changed(_ lanes: [LaneKey]) {
        operatorChanges.changed(lanes)
        let sendsHints = hints.shouldSend
        let (watches, moved, isFirst) = state.withLock { state in
            var (watches, moved): ([any ChangeObserver], [UUID]) = ([], [])
            let organizations = Set(lanes.map(\.organization))
            if state.lanes.count > 0 { watches = lanes.flatMap { state.lanes.watches(of: $0) } }
            moved = organizations.filter { state.feeds.changed($0) }
            guard sendsHints else { return (watches, moved, false) }
            let isFirst = state.unsent.isEmpty
            // if there are too many names, other replicas receive a hint to poll everything
            guard state.unsent.count <= HintMessage.maximumNames * Self.hintsAtATime else {
                return (watches, moved, false)
            }
            state.unsent.formUnion(lanes.map { WakeName($0) })
            state.unsent.formUnion(organizations.map { WakeName(feedOf: $0) })
            return (watches, moved, isFirst)
        }
        notify(watches, moved)
        if isFirst { outgoing.continuation.yield(nil) }
    }

    /// Notifies the operators' views in all replicas that an operator changed an organization.
    ///
    /// In other replicas, the hint also causes an unnecessary poll of the feed.
    package func changed(_ organization: UUID) {
        operatorChanges.changed(organization)
        guard hints.shouldSend else { return }
        let isFirst = state.withLock { state in
            let isFirst = state.unsent.isEmpty
            state.unsent.insert(WakeName(feedOf: organization))
            return isFirst
        }
        if isFirst { outgoing.continuation.yield(nil) }
    }

    /// Watches a lane, a feed after a position, or both, while `body` runs.
    ///
    /// No change after the beginning of the call is missed.
    nonisolated(nonsending) package func watching<Value, Failure: Error>(
        lane: LaneKey? = nil,
        feed: (interest: FeedInterest, position: Int64)? = nil,
        _ body: nonisolated(nonsending) (Watch) async throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        let watch = Watch()
        add(watch, lane: lane, feed: feed)
        defer { remove(watch, lane: lane, feed: feed?.interest) }
        return try await body(watch)
    }

    /// Registers an observer of a lane, of a feed after a position, or of both.
    package func add(
        _ observer: any ChangeObserver,
        lane: LaneKey?,
        feed: (interest: FeedInterest, position: Int64)?
    ) {
        state.withLock { state in
            if let lane { state.lanes.add(observer, to: lane) }
            if let feed { state.feeds.add(observer, feed.interest, after: feed.position) }
        }
    }

    package func remove(_ observer: any ChangeObserver, lane: LaneKey?, feed: FeedInterest?) {
        state.withLock { state in
            if let lane { state.lanes.remove(observer, from: lane) }
            if let feed { state.feeds.remove(observer, feed) }
        }
    }

    /// The id by which other replicas identify this replica. Each start generates a new id.
    package var gatewayID: UUID { hints.id }

    /// The number of other replicas whose hints arrived recently, for metrics.
    package var peers: Int { hints.peerCount }

    /// Whether hints of other replicas arrive, for metrics.
    package var isReceivingHints: Bool { hints.isReceiving }

    // MARK: - The service

    /// Receives and sends hints, and polls everything that is watched, until graceful shutdown.
    package func run() async throws {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { try? await gracefulShutdown() }
            group.addTask { await self.hints.listen { self.take($0) } }
            group.addTask { await self.hints.runPresenceLoop() }
            group.addTask { await self.runSendLoop() }
            group.addTask { await self.runPollLoop() }
            group.addTask { await self.followFeeds() }
            await group.next()
            group.cancelAll()
        }
    }

    // MARK: - Hints

    private func take(_ hint: HintMessage) {
        switch hint {
        case .presence: outgoing.continuation.yield(.presence)
        case .due: state.withLock { $0.onDue }?()
        case .everything:
            operatorChanges.changedElsewhere()
            pollNow.store(true, ordering: .relaxed)
        case .changed(let names):
            operatorChanges.changedElsewhere()
            let (watches, moved) = state.withLock { state in
                let organizations = names.compactMap { state.feeds.organization($0) }
                return (
                    names.flatMap { state.lanes.watches(of: $0) }, organizations.filter { state.feeds.changed($0) }
                )
            }
            notify(watches, moved)
        }
    }

    private func notify(_ watches: [any ChangeObserver], _ moved: [UUID]) {
        for watch in watches { watch.laneChanged() }
        for organization in moved { movedFeeds.continuation.yield(organization) }
    }

    private func runSendLoop() async {
        for await message in outgoing.stream {
            if let message {
                await hints.send(message)
                continue
            }
            let names = state.withLock { state in
                defer { state.unsent = [] }
                return Array(state.unsent)
            }
            if names.count > HintMessage.maximumNames * Self.hintsAtATime {
                await hints.send(.everything)
            } else {
                for start in stride(from: 0, to: names.count, by: HintMessage.maximumNames) {
                    await hints.send(.changed(Array(names[start..<min(start + HintMessage.maximumNames, names.count)])))
                }
            }
            try? await Task.sleep(for: Self.hintInterval)
        }
    }
}

/// Receives a signal after a change of data that the observer watches.
///
/// The signal contains no data, because the observer reads the change itself. A lost signal only delays the read. The
/// methods are called often and from any thread. Therefore they must be quick.
package protocol ChangeObserver: AnyObject, Sendable {
    /// Mutations or mappings of the lane were changed.
    func laneChanged()
    /// The feed has reached a position with a change that the observer may see.
    func feedMoved(to position: Int64)
}
