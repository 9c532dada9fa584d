public import Foundation

/// A lane as its locked row shows it. Its methods are the events of a lane: only they change its counts, its head, its
/// halt and its lease.
public struct LaneState: Sendable, Hashable {
    /// The position of the next mutation.
    public private(set) var nextPosition: Int64
    /// Raised by one with each change to the lane's mutations and mappings.
    public private(set) var changePosition: Int64
    /// Mutations that run when their turn comes: pending or in flight.
    public private(set) var queuedCount: Int32
    /// Mutations that are not final.
    public private(set) var openCount: Int32
    /// The mutation that halts the lane until a person settles it.
    public private(set) var haltedBy: UUID?
    /// When a worker may claim the lane: its head is due, or its lease has expired. Nil when nothing is to run.
    public private(set) var readyAt: Timestamp?
    /// The worker that runs the lane, until ``readyAt``.
    public private(set) var leaseOwner: UUID?
    /// Raised with every claim.
    ///
    /// An outcome under an older token is discarded (product rule 13).
    public private(set) var leaseToken: Int64
    /// Steps that were made under the lease, by a worker that counts them.
    public private(set) var leaseStep: Int64
    /// The mutation that was sent and has no outcome yet.
    public private(set) var inFlight: UUID?
    /// No mutation before this position is pending or in flight.
    public private(set) var headPosition: Int64
    /// When the first of the queued mutations was accepted.
    public private(set) var queuedSince: Timestamp?

    /// A lane as in its row; the defaults are those of a new lane.
    public init(
        nextPosition: Int64 = 1,
        changePosition: Int64 = 0,
        queuedCount: Int32 = 0,
        openCount: Int32 = 0,
        haltedBy: UUID? = nil,
        readyAt: Timestamp? = nil,
        leaseOwner: UUID? = nil,
        leaseToken: Int64 = 0,
        leaseStep: Int64 = 0,
        inFlight: UUID? = nil,
        headPosition: Int64 = 1,
        queuedSince: Timestamp? = nil
    ) {
        self.nextPosition = nextPosition
        self.changePosition = changePosition
        self.queuedCount = queuedCount
        self.openCount = openCount
        self.haltedBy = haltedBy
        self.readyAt = readyAt
        self.leaseOwner = leaseOwner
        self.leaseToken = leaseToken
        self.leaseStep = leaseStep
        self.inFlight = inFlight
        self.headPosition = headPosition
        self.queuedSince = queuedSince
    }

    // MARK: - Questions

    /// Whether a hold may keep the lane's head from running.
    ///
    /// The lane waits for a person, or a mutation is queued that no worker runs. Usually neither is so, and the caller
    /// need not read the head.
    public var mayBeHeld: Bool { leaseOwner == nil && (haltedBy != nil || queuedCount > 0) }

    /// Whether a new mutation may take effect without being queued.
    var isFree: Bool { haltedBy == nil && queuedCount == 0 }

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
        headPosition = queuedCount == 0 ? position : min(headPosition, position)
        queuedSince = queuedSince.map { min($0, acceptedAt) } ?? acceptedAt
        queuedCount += 1
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
                headPosition = min(headPosition, position)
            } else if headPosition == position {
                headPosition += 1
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
            if node.status.isQueued, queuedCount == 0 { queuedSince = nil }
        }
        if haltedBy == node.id, !MutationStatus.forAPerson.contains(status) { haltedBy = nil }
    }

    private mutating func count(from old: MutationStatus, to new: MutationStatus) {
        if old.isQueued, !new.isQueued { queuedCount -= 1 }
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
        headPosition = position
        self.queuedSince = queuedSince
    }

    /// Corrects a lane that counts queued mutations although the search found none.
    ///
    /// The next search covers all of the lane. If this one did so already, the count becomes 0.
    ///
    /// - Returns: a description of the inconsistency.
    mutating func repairCounters() -> String {
        if headPosition > 0 {
            defer { headPosition = 0 }
            return "no pending mutation from position \(headPosition) on; scanning the whole lane"
        }
        defer { queuedCount = 0 }
        return "\(queuedCount) mutations were counted as queued, but the queue is empty"
    }

    /// Whether the next poll searches all of the lane for pending mutations.
    ///
    /// See ``repairCounters()``.
    var isSearched: Bool { headPosition == 0 && queuedCount != 0 }

    // MARK: - The lease

    /// Gives the lane to a worker, under a new lease.
    ///
    /// The lease invalidates outcomes under earlier ones.
    mutating func claim(by worker: UUID, _ lease: LaneLease, now: Timestamp) {
        leaseToken += 1
        leaseStep = 1
        leaseOwner = worker
        readyAt = lease.end(from: now)
    }

    /// Counts a step under the lease.
    ///
    /// - Parameter number: those before it, as the worker counted them.
    mutating func countStep(after number: Int64) {
        leaseStep = number + 1
    }

    /// Renews the lease if necessary (``LaneLease/mustRenew(_:upstream:now:)``).
    mutating func renew(_ lease: LaneLease, upstream: UpstreamSettings?, now: Timestamp) {
        if lease.mustRenew(readyAt, upstream: upstream, now: now) { readyAt = lease.end(from: now) }
    }

    /// Takes the lane back from its worker. A worker may claim it again at that time; nil: after the next event.
    mutating func release(at moment: Timestamp?) {
        leaseOwner = nil
        readyAt = moment
    }

    // MARK: - Joining

    /// Whether no worker holds the lane, and no mutation is in flight.
    public var isAtRest: Bool { leaseOwner == nil && inFlight == nil }

    /// Appends another lane's mutations to its own.
    ///
    /// Both lanes are at rest, and one of them at most is halted.
    ///
    /// - Returns: what is added to the other lane's positions and change positions: readers of either lane are not past
    ///   any of them then.
    public mutating func absorb(_ other: LaneState, now: Timestamp) -> (positions: Int64, changes: Int64) {
        assert(isAtRest && other.isAtRest && (haltedBy == nil || other.haltedBy == nil))
        let (positions, changes) = (nextPosition - 1, max(changePosition, other.changePosition))
        if other.queuedCount > 0 {
            if queuedCount == 0 { headPosition = positions + other.headPosition }
            queuedSince = [queuedSince, other.queuedSince].compactMap(\.self).min()
        }
        nextPosition = positions + other.nextPosition
        changePosition = changes + other.changePosition
        queuedCount += other.queuedCount
        openCount += other.openCount
        haltedBy = haltedBy ?? other.haltedBy
        leaseToken = max(leaseToken, other.leaseToken)
        wake(now: now)
        return (positions, changes)
    }

    /// Lets a worker poll the lane at once.
    ///
    /// Changes nothing if a worker holds it, it waits for a person, or no mutation is to run.
    mutating func wake(now: Timestamp) {
        guard leaseOwner == nil else { return }
        readyAt = haltedBy == nil && queuedCount > 0 ? now : nil
    }
}
