public import FoundationEssentials

/// A lane as its locked row shows it. Its methods are the events of a lane: only they change its counts, its head, its
/// halt and its lease.
public struct LaneState: Sendable, Hashable {
    /// The mutations that run when their turn comes: pending or in flight.
    public struct Queue: Sendable, Hashable {
        public var count: Int32
        /// No mutation before this position is pending or in flight.
        public var head: Int64
        /// When the first of them was accepted.
        public var since: Timestamp?

        public init(count: Int32 = 0, head: Int64 = 1, since: Timestamp? = nil) {
            self.count = count
            self.head = head
            self.since = since
        }
    }

    /// A worker's right to run the lane.
    public struct Lease: Sendable, Hashable {
        /// The worker that runs the lane, until ``LaneState/readyAt``.
        public var owner: UUID?
        /// Raised with every claim.
        ///
        /// An outcome under an older token is discarded (product rule 13).
        public var token: Int64
        /// Steps that were made under the lease, by a worker that counts them.
        public var step: Int64

        public init(owner: UUID? = nil, token: Int64 = 0, step: Int64 = 0) {
            self.owner = owner
            self.token = token
            self.step = step
        }
    }

    /// The position of the next mutation.
    public private(set) var nextPosition: Int64
    /// Raised by one with each change to the lane's mutations and mappings.
    public private(set) var changePosition: Int64
    public private(set) var queue: Queue
    /// Mutations that are not final.
    public private(set) var openCount: Int32
    /// The mutation that halts the lane until a person settles it.
    public private(set) var haltedBy: UUID?
    /// When a worker may claim the lane: its head is due, or its lease has expired. Nil when nothing is to run.
    public private(set) var readyAt: Timestamp?
    public private(set) var lease: Lease
    /// The mutation that was sent and has no outcome yet.
    public private(set) var inFlight: UUID?

    /// A lane as in its row; the defaults are those of a new lane.
    public init(
        nextPosition: Int64 = 1,
        changePosition: Int64 = 0,
        queue: Queue = Queue(),
        openCount: Int32 = 0,
        haltedBy: UUID? = nil,
        readyAt: Timestamp? = nil,
        lease: Lease = Lease(),
        inFlight: UUID? = nil
    ) {
        self.nextPosition = nextPosition
        self.changePosition = changePosition
        self.queue = queue
        self.openCount = openCount
        self.haltedBy = haltedBy
        self.readyAt = readyAt
        self.lease = lease
        self.inFlight = inFlight
    }

    // MARK: - Questions

    /// Whether a hold may keep the lane's head from running.
    ///
    /// The lane waits for a person, or a mutation is queued that no worker runs. Usually neither is so, and the caller
    /// need not read the head.
    public var mayBeHeld: Bool { lease.owner == nil && (haltedBy != nil || queue.count > 0) }

    /// Whether a new mutation may take effect without being queued.
    var isFree: Bool { haltedBy == nil && queue.count == 0 }

    public func isReady(at now: Timestamp) -> Bool {
        readyAt.map { $0 <= now } ?? false
    }

    // MARK: - Mutations

    /// Begins a transaction that changes the lane.
    ///
    /// All its changes carry one change position.
    mutating func change() {
        changePosition += 1
    }

    /// Appends a new mutation.
    ///
    /// - Parameter halts: whether it halts the lane.
    mutating func append(_ record: MutationRecord, halts: Bool) {
        assert(record.position == nextPosition)
        nextPosition += 1
        if record.status.isQueued { enqueue(position: record.position, acceptedAt: record.acceptedAt) }
        if !record.status.isFinal { openCount += 1 }
        if halts { haltedBy = record.id }
    }

    /// Records that a mutation became pending.
    ///
    /// It is new, no longer waits for another, or runs again.
    mutating func enqueue(position: Int64, acceptedAt: Timestamp) {
        queue.head = queue.count == 0 ? position : min(queue.head, position)
        queue.since = queue.since.map { min($0, acceptedAt) } ?? acceptedAt
        queue.count += 1
    }

    /// Records the outcome of a mutation's turn.
    ///
    /// If it was in flight, no mutation is afterwards, and the next head is likely at the next position.
    ///
    /// - Parameter halts: whether the outcome halts the lane.
    mutating func finish(_ outcome: LaneOutcome, halts: Bool) {
        let (position, status) = (outcome.mutation.position, outcome.outcome.status)
        if outcome.from == .inFlight {
            inFlight = nil
            if status.isQueued {
                queue.head = min(queue.head, position)
            } else if queue.head == position {
                queue.head += 1
            }
        }
        count(from: outcome.from, to: status)
        // of several in flight, the first one halts the lane
        if halts { haltedBy = haltedBy ?? outcome.mutation.id }
    }

    /// Records that a person moved a mutation, or one that it waited for.
    ///
    /// Lifts the halt that it caused. A mutation that has to wait for its turn is queued again.
    mutating func settle(_ node: DependencyNode, as status: MutationStatus) {
        if !node.status.isQueued, status.isQueued {
            enqueue(position: node.position, acceptedAt: node.acceptedAt)
        } else {
            count(from: node.status, to: status)
            if node.status.isQueued, queue.count == 0 { queue.since = nil }
        }
        if haltedBy == node.id, !MutationStatus.forAPerson.contains(status) { haltedBy = nil }
    }

    private mutating func count(from old: MutationStatus, to new: MutationStatus) {
        if old.isQueued, !new.isQueued { queue.count -= 1 }
        if !old.isFinal, new.isFinal { openCount -= 1 }
    }

    // MARK: - The head

    /// Records the mutation that is committed as in flight before it is sent; one of them if there are several.
    mutating func markInFlight(_ id: UUID?) {
        inFlight = id
    }

    /// Forgets the mutation in flight, whose worker no longer receives its outcome.
    ///
    /// The outcome is recorded separately.
    mutating func clearInFlight() {
        inFlight = nil
    }

    /// Sets the head to the first pending mutation that a poll found.
    ///
    /// It was accepted at `queuedSince`; nil if no mutation was found.
    mutating func setHead(to position: Int64, queuedSince: Timestamp?) {
        queue.head = position
        queue.since = queuedSince
    }

    /// Corrects a lane that counts queued mutations although the search found none.
    ///
    /// The next search covers all of the lane. If this one did so already, the count becomes 0.
    ///
    /// - Returns: a description of the inconsistency.
    mutating func repairCounters() -> String {
        if queue.head > 0 {
            defer { queue.head = 0 }
            return "no pending mutation from position \(queue.head) on; scanning the whole lane"
        }
        defer { queue.count = 0 }
        return "\(queue.count) mutations were counted as queued, but the queue is empty"
    }

    /// Whether the next poll searches all of the lane for pending mutations.
    ///
    /// See ``repairCounters()``.
    var isSearched: Bool { queue.head == 0 && queue.count != 0 }

    // MARK: - The lease

    /// Gives the lane to a worker, under a new lease.
    ///
    /// The lease invalidates outcomes under earlier ones.
    mutating func claim(by worker: UUID, _ lease: LaneLease, now: Timestamp) {
        self.lease = Lease(owner: worker, token: self.lease.token + 1, step: 1)
        readyAt = lease.end(from: now)
    }

    /// Counts a step under the lease.
    ///
    /// - Parameter number: those before it, as the worker counted them.
    mutating func countStep(after number: Int64) {
        lease.step = number + 1
    }

    /// Renews the lease if necessary (``LaneLease/mustRenew(_:upstream:now:)``).
    mutating func renew(_ lease: LaneLease, upstream: UpstreamSettings?, now: Timestamp) {
        if lease.mustRenew(readyAt, upstream: upstream, now: now) { readyAt = lease.end(from: now) }
    }

    /// Takes the lane back from its worker. A worker may claim it again at that time; nil: after the next event.
    mutating func release(at moment: Timestamp?) {
        lease.owner = nil
        readyAt = moment
    }

    // MARK: - Joining

    /// Whether no worker holds the lane, and no mutation is in flight.
    public var isAtRest: Bool { lease.owner == nil && inFlight == nil }

    /// Appends another lane's mutations to its own.
    ///
    /// Both lanes are at rest, and one of them at most is halted.
    ///
    /// - Returns: what is added to the other lane's positions and change positions: readers of either lane are not past
    ///   any of them then.
    public mutating func absorb(_ other: LaneState, now: Timestamp) -> (positions: Int64, changes: Int64) {
        assert(isAtRest && other.isAtRest && (haltedBy == nil || other.haltedBy == nil))
        let (positions, changes) = (nextPosition - 1, max(changePosition, other.changePosition))
        if other.queue.count > 0 {
            if queue.count == 0 { queue.head = positions + other.queue.head }
            queue.since = [queue.since, other.queue.since].compactMap(\.self).min()
        }
        nextPosition = positions + other.nextPosition
        changePosition = changes + other.changePosition
        queue.count += other.queue.count
        openCount += other.openCount
        haltedBy = haltedBy ?? other.haltedBy
        lease.token = max(lease.token, other.lease.token)
        wake(now: now)
        return (positions, changes)
    }

    /// Lets a worker poll the lane immediately.
    ///
    /// Changes nothing if a worker holds it, it waits for a person, or no mutation is to run.
    mutating func wake(now: Timestamp) {
        guard lease.owner == nil else { return }
        readyAt = haltedBy == nil && queue.count > 0 ? now : nil
    }
}
