import SyncModel
import SyncStore

/// A listener's pending work and deadlines. Decides; ``EventSubscriber`` acts.
struct SubscriberState {
    /// The complete pending work of a listener.
    struct Work {
        var cursor: EventCursor
        var changes: PendingChanges
        /// Whether it is still unknown if the feed has changes after the cursor.
        var isFirst: Bool
        /// Whether to send a keep-alive.
        var keepsAlive: Bool
    }

    /// What to do on a tick.
    enum TickAction: Equatable {
        case nothing
        case work
        case close(EventStreamEnd)
    }

    private(set) var cursor: EventCursor
    private(set) var isOver = false
    /// When the stream ends in any case.
    private let end: ContinuousClock.Instant
    private var changes = PendingChanges()
    private var isFirst = true
    private var keepsAlive = false
    /// Whether it is in the line, or a worker serves it.
    private var isInHand = true
    private var isWritable = true
    private var lastWrite: ContinuousClock.Instant
    private var blockedSince: ContinuousClock.Instant?

    /// A new listener is in the line: there may be changes after its cursor.
    init(cursor: EventCursor, now: ContinuousClock.Instant, end: ContinuousClock.Instant) {
        self.cursor = cursor
        self.end = end
        lastWrite = now
        changes.laneChanged()
    }

    /// Notes changes, or another reason to work.
    ///
    /// - Returns: whether to put it in the line.
    mutating func record(_ change: (inout PendingChanges) -> Void) -> Bool {
        change(&changes)
        return queues()
    }

    mutating func writabilityChanged(_ isWritable: Bool, now: ContinuousClock.Instant) -> Bool {
        self.isWritable = isWritable
        blockedSince = isWritable ? nil : blockedSince ?? now
        return queues()
    }

    /// Begins the work; nil if there is no work now.
    mutating func begin() -> Work? {
        guard hasWork else {
            isInHand = false
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
    ///   - left: the unfinished part.
    ///   - isLater: whether that has time until the next tick.
    /// - Returns: whether to put it in the line again.
    mutating func finish(left: Work?, isLater: Bool) -> Bool {
        isInHand = false
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

    /// Closes it; returns whether it was open before.
    mutating func close() -> Bool {
        defer { isOver = true }
        return !isOver
    }

    private var hasWork: Bool { !isOver && isWritable && (!changes.isEmpty || keepsAlive || isFirst) }

    private mutating func queues() -> Bool {
        guard !isInHand, hasWork else { return false }
        isInHand = true
        return true
    }
}
