public import FoundationEssentials

/// A lane as stored in its row, which the caller has locked.
///
/// Each method applies one event to the lane. Only these methods change the lane's counts, head, halt and lease.
public struct LaneState: Sendable, Hashable {
    /// The lane's mutations that are pending or in flight.
    public struct Queue: Sendable, Hashable {
        public var count: Int32
        /// No mutation before this position is pending or in flight.
        public var head: Int64
        /// When the first mutation of the queue was accepted; nil if the queue is empty.
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
        /// A token that every claim increments.
        ///
        /// An outcome with an older token is discarded (product rule 13).
        public var token: Int64
        /// The number of steps under the lease, if the worker counts its steps.
        public var step: Int64

        public init(owner: UUID? = nil, token: Int64 = 0, step: Int64 = 0) {
            self.owner = owner
            self.token = token
            self.step = step
        }
    }

    /// The position of the next mutation.
    public private(set) var nextPosition: Int64
    /// The position of the last change of the lane's mutations and mappings. A transaction that changes mutations or
    /// mappings increments this position.
    public private(set) var changePosition: Int64
    public private(set) var queue: Queue
    /// The number of mutations that are not final.
    public private(set) var openCount: Int32
    /// The mutation that halts the lane until a person settles it.
    public private(set) var haltedBy: UUID?
    /// When a worker may claim the lane; nil if no mutation can run.
    ///
    /// This is the time when the lane's head is due or, if a worker holds the lane, when the worker's lease expires.
    public private(set) var readyAt: Timestamp?
    public private(set) var lease: Lease
    /// The mutation that is committed as in flight and has no outcome yet. If several mutations are in flight, this is
    /// one of them.
    public private(set) var inFlight: UUID?

    /// Creates a lane from the values of its row. The default values describe a new lane.
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

    /// Whether the lane may have a head that is not running.
    ///
    /// The value is false in two usual cases: a worker processes the lane, and therefore the head runs; or the lane is
    /// not halted and has no queued mutations, and therefore has no head. In both cases, the caller need not read the
    /// head.
    public var mayBeHeld: Bool { lease.owner == nil && (haltedBy != nil || queue.count > 0) }

    /// Whether a new mutation may take effect without being queued.
    var isFree: Bool { haltedBy == nil && queue.count == 0 }

    public func isReady(at now: Timestamp) -> Bool {
        readyAt.map { $0 <= now } ?? false
    }

    // MARK: - Mutations

    /// Begins a transaction that changes the lane.
    ///
    /// All changes of the transaction get the same change position.
    mutating func change() {
        changePosition += 1
    }

    /// Appends a new mutation.
    ///
    /// - Parameter halts: whether the mutation halts the lane.
    mutating func append(_ record: MutationRecord, halts: Bool) {
        assert(record.position == nextPosition)
        nextPosition += 1
        if record.status.isQueued { enqueue(position: record.position, acceptedAt: record.acceptedAt) }
        if !record.status.isFinal { openCount += 1 }
        if halts { haltedBy = record.id }
    }

    /// Records that a mutation became pending.
    ///
    /// Either the mutation is new, or it no longer waits for other mutations, or it runs again.
    mutating func enqueue(position: Int64, acceptedAt: Timestamp) {
        queue.head = queue.count == 0 ? position : min(queue.head, position)
        queue.since = queue.since.map { min($0, acceptedAt) } ?? acceptedAt
        queue.count += 1
    }

    /// Records the outcome of a mutation's turn.
    ///
    /// If the mutation was in flight, the lane has no mutation in flight afterwards. If the mutation was also the head
    /// and is not queued again, the search for the next head begins at the next position.
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
        // if several mutations halt the lane, the first one is recorded
        if halts { haltedBy = haltedBy ?? outcome.mutation.id }
    }

    /// Records a mutation's new status, after a person settled this mutation or another one for which it waited.
    ///
    /// If the mutation halted the lane and no longer needs a person, the halt ends. A mutation that runs again is
    /// queued.
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

    /// Records the mutation that is committed as in flight before it is sent.
    ///
    /// If several mutations are in flight, the caller passes one of them.
    mutating func markInFlight(_ id: UUID?) {
        inFlight = id
    }

    /// Removes the mutation in flight. Called if its worker can no longer receive the outcome.
    ///
    /// The outcome of the mutation is recorded separately.
    mutating func clearInFlight() {
        inFlight = nil
    }

    /// Sets the head to the first pending mutation that a poll found.
    ///
    /// - Parameter queuedSince: when that mutation was accepted; nil if no mutation was found.
    mutating func setHead(to position: Int64, queuedSince: Timestamp?) {
        queue.head = position
        queue.since = queuedSince
    }

    /// Corrects a lane that counts queued mutations although a search found no pending mutation.
    ///
    /// If the last search did not cover the whole lane, the next search will. Otherwise, the count becomes 0.
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

    /// Whether the next poll searches the whole lane for pending mutations.
    ///
    /// See ``repairCounters()``.
    var isSearched: Bool { queue.head == 0 && queue.count != 0 }

    // MARK: - The lease

    /// Gives the lane to a worker, under a new lease.
    ///
    /// The new lease invalidates outcomes under earlier leases.
    mutating func claim(by worker: UUID, _ lease: LaneLease, now: Timestamp) {
        self.lease = Lease(owner: worker, token: self.lease.token + 1, step: 1)
        readyAt = lease.end(from: now)
    }

    /// Counts a step under the lease.
    ///
    /// - Parameter number: the number of earlier steps that the worker has counted.
    mutating func countStep(after number: Int64) {
        lease.step = number + 1
    }

    /// Renews the lease if necessary (``LaneLease/mustRenew(_:upstream:now:)``).
    mutating func renew(_ lease: LaneLease, upstream: UpstreamSettings?, now: Timestamp) {
        if lease.mustRenew(readyAt, upstream: upstream, now: now) { readyAt = lease.end(from: now) }
    }

    /// Ends the worker's right to run the lane.
    ///
    /// A worker may claim the lane again at the given time. If the time is nil, a worker may claim the lane after the
    /// next event of the lane.
    mutating func release(at moment: Timestamp?) {
        lease.owner = nil
        readyAt = moment
    }

    // MARK: - Joining

    /// Whether no worker holds the lane, and no mutation is in flight.
    public var isAtRest: Bool { lease.owner == nil && inFlight == nil }

    /// Appends another lane's mutations to this lane.
    ///
    /// Both lanes are at rest, and at most one of them is halted.
    ///
    /// - Returns: the increase of the positions of the other lane's mutations (`positions`), and the increase of the
    ///   change positions of its mutations and mappings (`changes`). With these values, the moved mutations come after
    ///   every cursor of either lane.
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

    /// Allows a worker to claim the lane immediately.
    ///
    /// Does nothing if a worker holds the lane. If the lane is halted or its queue is empty, no worker may claim it.
    mutating func wake(now: Timestamp) {
        guard lease.owner == nil else { return }
        readyAt = haltedBy == nil && queue.count > 0 ? now : nil
    }
}
