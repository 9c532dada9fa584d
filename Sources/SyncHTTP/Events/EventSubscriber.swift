import Logging
import Metrics
import NIOCore
import NIOPosix
import ServiceLifecycle
import SyncModel
import SyncStore
import Synchronization

/// One listener to events: a socket without an HTTP connection, a cursor, and pending changes.
///
/// A listener without events uses a few kilobytes. Only the channel buffers unsent bytes.
final class EventSubscriber: ChannelInboundHandler, ChangeObserver {
    typealias InboundIn = ByteBuffer

    /// Nothing was written, because other listeners use the whole memory budget.
    struct BudgetExhausted: Error {}

    /// The size in bytes below which frames are written even if the budget is used up: openings, hints, keep-alives.
    private static let shortBytes = 1_024

    let caller: Caller
    private let channel: any Channel
    private let budget: FairBudget
    private let onWork: @Sendable (EventSubscriber) -> Void
    private let onEnd: @Sendable (EventSubscriber, EventStreamEnd) -> Void
    private let state: Mutex<SubscriberState>

    /// - Parameters:
    ///   - onWork: called when the listener has work for a worker.
    ///   - onEnd: called once, when the stream ends.
    init(
        _ caller: Caller,
        channel: any Channel,
        state: SubscriberState,
        budget: FairBudget,
        onWork: @escaping @Sendable (EventSubscriber) -> Void,
        onEnd: @escaping @Sendable (EventSubscriber, EventStreamEnd) -> Void
    ) {
        self.caller = caller
        self.channel = channel
        self.state = Mutex(state)
        self.budget = budget
        self.onWork = onWork
        self.onEnd = onEnd
    }

    var lane: LaneKey { LaneKey(organization: caller.organization.id, user: caller.user) }
    var interest: FeedInterest { FeedInterest(organization: caller.organization.id, user: caller.user) }

    // MARK: - Work

    /// Begins the work, and returns it; nil if there is no work now.
    func begin() -> SubscriberState.Work? { state.withLock { $0.begin() } }

    /// Ends the work.
    ///
    /// - Parameters:
    ///   - left: the remaining work.
    ///   - isLater: whether the remaining work can wait until the next tick.
    func finish(left: SubscriberState.Work? = nil, isLater: Bool = false) {
        if state.withLock({ $0.finish(left: left, isLater: isLater) }) { onWork(self) }
    }

    /// Waits until all earlier writes have reached the channel, and returns whether the channel accepts more data.
    func takesMore() async throws -> Bool {
        try await channel.eventLoop.submit { [channel] in channel.isWritable }.get()
    }

    var isOver: Bool { state.withLock { $0.isOver } }

    /// Writes bytes, and records the listener's cursor.
    ///
    /// The bytes count toward the memory budget until the operating system has accepted them. A listener whose channel
    /// is not writable gets no work, so nothing is written to it.
    ///
    /// - Parameter cursor: the cursor after these bytes; nil if the bytes do not advance the cursor.
    /// - Throws: ``BudgetExhausted`` if other listeners use too much of the budget.
    func write(_ bytes: [UInt8], upTo cursor: EventCursor? = nil) throws(BudgetExhausted) {
        if bytes.count < Self.shortBytes || budget.held == 0 {
            budget.count(bytes.count, for: lane)
        } else if !budget.tryAcquire(bytes.count, for: lane) {
            throw BudgetExhausted()
        }
        channel.writeAndFlush(ByteBuffer(bytes: bytes)).whenComplete { [budget, lane] _ in
            budget.release(bytes.count, of: lane)
        }
        state.withLock { $0.wrote(cursor, now: .now) }
    }

    func tick(keepAlive: Duration, writeTimeout: Duration) {
        let action = state.withLock { $0.tick(now: .now, keepAlive: keepAlive, writeTimeout: writeTimeout) }
        switch action {
        case .nothing: break
        case .work: onWork(self)
        case .close(let end): close(end)
        }
    }

    /// Closes the stream. If this method is called several times, the first reason applies.
    func close(_ end: EventStreamEnd) {
        guard state.withLock({ $0.close() }) else { return }
        onEnd(self, end)
        channel.close(promise: nil)
    }

    // MARK: - Changes

    func laneChanged() {
        if state.withLock({ $0.record { $0.laneChanged() } }) { onWork(self) }
    }

    func feedMoved(to position: Int64) {
        if state.withLock({ $0.record { $0.feedMoved(to: position) } }) { onWork(self) }
    }

    // MARK: - The socket

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // the client must not send a further request on this connection
        close(.closed)
    }

    func channelInactive(context: ChannelHandlerContext) {
        close(.closed)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if state.withLock({ $0.writabilityChanged(context.channel.isWritable, now: .now) }) { onWork(self) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        close(.closed)
    }
}

// MARK: - SubscriberState

/// A listener's pending work and deadlines. This type makes the decisions that ``EventSubscriber`` executes.
struct SubscriberState {
    /// All pending work of a listener.
    struct Work {
        var cursor: EventCursor
        var changes: PendingChanges
        /// True until the gateway has determined whether the feed has changes after the cursor.
        var isFirst: Bool
        /// Whether to send a keep-alive.
        var keepsAlive: Bool
    }

    /// The action at a tick of the clock.
    enum TickAction: Equatable {
        case nothing
        case work
        case close(EventStreamEnd)
    }

    private(set) var cursor: EventCursor
    private(set) var isOver = false
    /// The time at which the stream ends at the latest.
    private let end: ContinuousClock.Instant
    private var changes = PendingChanges()
    private var isFirst = true
    private var keepsAlive = false
    /// Whether the listener is queued or is being served by a worker.
    private var isQueuedOrServed = true
    private var isWritable = true
    private var lastWrite: ContinuousClock.Instant
    private var blockedSince: ContinuousClock.Instant?

    /// Creates a listener that is already queued, because there may be changes after its cursor.
    init(cursor: EventCursor, now: ContinuousClock.Instant, end: ContinuousClock.Instant) {
        self.cursor = cursor
        self.end = end
        lastWrite = now
        changes.laneChanged()
    }

    /// Records changes.
    ///
    /// - Returns: whether the listener must be queued.
    mutating func record(_ change: (inout PendingChanges) -> Void) -> Bool {
        change(&changes)
        return queues()
    }

    mutating func writabilityChanged(_ isWritable: Bool, now: ContinuousClock.Instant) -> Bool {
        self.isWritable = isWritable
        blockedSince = isWritable ? nil : blockedSince ?? now
        return queues()
    }

    /// Begins the work, and returns it; nil if there is no work now.
    mutating func begin() -> Work? {
        guard hasWork else {
            isQueuedOrServed = false
            return nil
        }
        defer {
            changes = PendingChanges()
            keepsAlive = false
            isFirst = false
        }
        return Work(cursor: cursor, changes: changes, isFirst: isFirst, keepsAlive: keepsAlive)
    }

    mutating func wrote(_ cursor: EventCursor?, now: ContinuousClock.Instant) {
        if let cursor { self.cursor = cursor }
        lastWrite = now
    }

    /// Ends the work.
    ///
    /// - Parameters:
    ///   - left: the remaining work.
    ///   - isLater: whether the remaining work can wait until the next tick.
    /// - Returns: whether the listener must be queued again.
    mutating func finish(left: Work?, isLater: Bool) -> Bool {
        isQueuedOrServed = false
        if let left {
            if left.changes.lane { changes.laneChanged() }
            if let feed = left.changes.feed { changes.feedMoved(to: feed) }
            isFirst = isFirst || left.isFirst
            keepsAlive = keepsAlive || left.keepsAlive
        }
        return isLater ? false : queues()
    }

    mutating func tick(
        now: ContinuousClock.Instant,
        keepAlive: Duration,
        writeTimeout: Duration
    ) -> TickAction {
        if isOver { return .nothing }
        if now >= end { return .close(.expired) }
        if let blockedSince, now - blockedSince >= writeTimeout { return .close(.slow) }
        if now - lastWrite >= keepAlive { keepsAlive = true }
        return queues() ? .work : .nothing
    }

    /// Closes the listener; returns whether it was open before.
    mutating func close() -> Bool {
        defer { isOver = true }
        return !isOver
    }

    private var hasWork: Bool { !isOver && isWritable && (!changes.isEmpty || keepsAlive || isFirst) }

    private mutating func queues() -> Bool {
        guard !isQueuedOrServed, hasWork else { return false }
        isQueuedOrServed = true
        return true
    }
}

/// The reason why a stream of events ended, for metrics.
enum EventStreamEnd: String, Sendable, CaseIterable {
    /// The client disconnected, or the server shuts down.
    case closed
    /// The stream reached its maximum age, or its token expired.
    case expired
    /// The caller is no longer served.
    case refused
    /// The client did not read the data.
    case slow
    /// There were too many streams. This stream was the oldest of its user, or of the organization with the most
    /// streams.
    case superseded
    /// The stream could not continue, for example because the organization's data were purged or restored.
    case failed
}

/// The caller is no longer served.
struct AccessRevoked: Error {}
