public import Foundation

/// A lane as its locked row shows it. Whatever happens to a lane is told to it by the event's name: nothing else changes
/// what it counts, where its head is, what halts it and who may run it.
public struct LaneState: Sendable, Hashable {
    /// The place that the next mutation takes.
    public private(set) var nextPosition: Int64
    /// Raised by one with each change to the lane's mutations and mappings.
    public private(set) var changePosition: Int64
    /// Mutations that run when their turn comes: pending or in flight.
    public private(set) var queuedCount: Int32
    /// Mutations that are not final.
    public private(set) var openCount: Int32
    /// The mutation that holds everything else until a person settles it.
    public private(set) var haltedBy: UUID?
    /// When a worker may claim the lane: its head is due, or the lease on it has run out. Nil when nothing is to run.
    public private(set) var readyAt: Timestamp?
    /// The worker that runs the lane, until ``readyAt``.
    public private(set) var leaseOwner: UUID?
    /// Raised with every claim: an outcome under an older one is thrown away (product rule 13).
    public private(set) var leaseToken: Int64
    /// What was sent and has no outcome yet.
    public private(set) var inFlight: UUID?
    /// No mutation before this position is pending or in flight.
    public private(set) var headPosition: Int64
    /// When the first of the queued mutations was accepted.
    public private(set) var queuedSince: Timestamp?

    /// A lane as its row says; what is left out is as in a new lane.
    public init(
        nextPosition: Int64 = 1,
        changePosition: Int64 = 0,
        queuedCount: Int32 = 0,
        openCount: Int32 = 0,
        haltedBy: UUID? = nil,
        readyAt: Timestamp? = nil,
        leaseOwner: UUID? = nil,
        leaseToken: Int64 = 0,
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
        self.inFlight = inFlight
        self.headPosition = headPosition
        self.queuedSince = queuedSince
    }

    // MARK: - Questions

    /// Whether something may keep the lane's head from running: a person is waited for, or something is queued that nobody
    /// runs. In the usual case nothing is, and nobody has to look at the head.
    public var mayBeHeld: Bool { leaseOwner == nil && (haltedBy != nil || queuedCount > 0) }

    /// Whether a mutation that comes now waits for nobody: it may take effect before it is ever queued.
    var isFree: Bool { haltedBy == nil && queuedCount == 0 }

    /// Whether a worker may claim the lane now.
    public func isReady(at now: Timestamp) -> Bool {
        readyAt.map { $0 <= now } ?? false
    }

    // MARK: - Mutations

    /// Begins a transaction that changes the lane: all that it changes carries one change position.
    mutating func change() {
        changePosition += 1
    }

    /// Takes a new mutation in, at the lane's end.
    ///
    /// - Parameter halts: whether it came to what holds the lane.
    mutating func append(_ record: MutationRecord, halts: Bool) {
        assert(record.position == nextPosition)
        nextPosition += 1
        if record.status.isQueued { enqueue(position: record.position, acceptedAt: record.acceptedAt) }
        if !record.status.isFinal { openCount += 1 }
        if halts { haltedBy = record.id }
    }

    /// Notes that a mutation is pending now and was not before: it is new, waits for nothing any more, or runs again.
    mutating func enqueue(position: Int64, acceptedAt: Timestamp) {
        headPosition = queuedCount == 0 ? position : min(headPosition, position)
        queuedSince = queuedSince.map { min($0, acceptedAt) } ?? acceptedAt
        queuedCount += 1
    }

    /// Notes what came of a mutation's turn: where it was in flight nothing is any more, and the next one is likely to stand
    /// right behind it.
    ///
    /// - Parameter halts: whether that holds the lane.
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
        if halts { haltedBy = outcome.mutation.id }
    }

    /// Notes that a person moved a mutation, or that one it waited for was moved, and lifts the halt that it was the reason
    /// for. What has to wait for the mutation's turn is queued again.
    mutating func settle(_ node: DependencyNode, as status: MutationStatus) {
        if !node.status.isQueued, status.isQueued {
            enqueue(position: node.position, acceptedAt: node.acceptedAt)
        } else {
            count(from: node.status, to: status)
            if node.status.isQueued, queuedCount == 0 { queuedSince = nil }
        }
        if haltedBy == node.id, !MutationStatus.forAPerson.contains(status) { haltedBy = nil }
    }

    /// Counts what leaves the queue, and what becomes final.
    private mutating func count(from old: MutationStatus, to new: MutationStatus) {
        if old.isQueued, !new.isQueued { queuedCount -= 1 }
        if !old.isFinal, new.isFinal { openCount -= 1 }
    }

    // MARK: - The head

    /// Notes what is committed as in flight before it is sent.
    mutating func fly(_ id: UUID) {
        inFlight = id
    }

    /// Forgets what its worker does not hear of any more; what came of it is noted for itself.
    mutating func land() {
        inFlight = nil
    }

    /// Points at what is pending first, as a look at the lane found it, and notes when that was accepted; nil for nothing.
    mutating func point(at position: Int64, queuedSince: Timestamp?) {
        headPosition = position
        self.queuedSince = queuedSince
    }

    /// Mends a lane in which something is counted as queued and nothing is found: all of it is looked at, and where it was
    /// already nothing is queued.
    ///
    /// - Returns: what is wrong, in words.
    mutating func mend() -> String {
        if headPosition > 0 {
            defer { headPosition = 0 }
            return "nothing pending from position \(headPosition) on; looking at all of it"
        }
        defer { queuedCount = 0 }
        return "\(queuedCount) mutations were counted as queued, and none is"
    }

    /// Whether all of the lane is to be looked at for what is pending (``mend()``).
    var isSearched: Bool { headPosition == 0 && queuedCount != 0 }

    // MARK: - The lease

    /// Gives the lane to a worker, under a lease that no outcome of an earlier one can be written under.
    mutating func claim(by worker: UUID, _ lease: LaneLease, now: Timestamp) {
        leaseToken += 1
        leaseOwner = worker
        readyAt = lease.end(from: now)
    }

    /// Lengthens the lease where it has to be (``LaneLease/mustRenew(_:upstream:now:)``).
    mutating func renew(_ lease: LaneLease, upstream: UpstreamSettings?, now: Timestamp) {
        if lease.mustRenew(readyAt, upstream: upstream, now: now) { readyAt = lease.end(from: now) }
    }

    /// Takes the lane back from its worker; it may be claimed again at that time, nil for when something happens to it.
    mutating func release(at moment: Timestamp?) {
        leaseOwner = nil
        readyAt = moment
    }

    /// Lets a worker look at the lane at once, unless one has it, a person is waited for, or nothing is to run.
    mutating func wake(now: Timestamp) {
        guard leaseOwner == nil else { return }
        readyAt = haltedBy == nil && queuedCount > 0 ? now : nil
    }
}
