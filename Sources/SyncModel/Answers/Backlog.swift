public import FoundationEssentials

/// A user's backlog, which consists of the mutations that are not final.
///
/// The backlog has the counts of these mutations for each device and for the lane, and the head of the lane.
public struct Backlog: Sendable, Hashable {
    /// The counts of mutations that are not final, by status.
    public struct Counts: Sendable, Hashable {
        private var numbers: [MutationStatus: Int64] = [:]

        public init() {}

        /// The number of mutations with the given status; 0 for a final status.
        public subscript(status: MutationStatus) -> Int64 { numbers[status] ?? 0 }

        public mutating func add(_ number: Int64, of status: MutationStatus) {
            numbers[status, default: 0] += number
        }
    }

    /// One of the user's devices.
    public struct Device: Sendable, Hashable {
        public var id: UUID
        /// The highest sequence number that was evaluated.
        public var acceptedSequence: Int64
        /// When the device last pushed or registered.
        public var lastSeenAt: Timestamp
        public var counts = Counts()
        /// The device's first pending, in-flight or blocked mutation, in lane order.
        public var oldestPending: Mutation?

        public init(id: UUID, acceptedSequence: Int64, lastSeenAt: Timestamp) {
            self.id = id
            self.acceptedSequence = acceptedSequence
            self.lastSeenAt = lastSeenAt
        }
    }

    /// The part of a mutation that a backlog contains.
    public struct Mutation: Sendable, Hashable {
        public var id: UUID
        public var deviceID: UUID
        public var sequenceNumber: Int64
        public var position: Int64
        public var status: MutationStatus
        public var operation: Operation
        @Exact public var entityType: String
        /// The number of requests sent to the upstream so far.
        public var attemptCount: Int16 = 0
        /// When the next retry is due; nil if no retry is scheduled.
        public var nextRetryAt: Timestamp?
        /// When the mutation was captured, according to the device's clock.
        public var createdAt: Timestamp
        public var acceptedAt: Timestamp
        /// The mutations for which this mutation waits while it is blocked.
        public var dependsOn: [UUID] = []

        /// Creates a mutation for which no request was sent. The time of capture is set to the time of acceptance.
        public init(
            id: UUID,
            deviceID: UUID,
            sequenceNumber: Int64,
            position: Int64,
            status: MutationStatus,
            operation: Operation,
            entityType: String,
            acceptedAt: Timestamp
        ) {
            self.id = id
            self.deviceID = deviceID
            self.sequenceNumber = sequenceNumber
            self.position = position
            self.status = status
            self.operation = operation
            self.entityType = entityType
            createdAt = acceptedAt
            self.acceptedAt = acceptedAt
        }
    }

    /// The user's devices. The device that was seen last comes first.
    public var devices: [Device] = []
    /// The counts for all devices together.
    public var counts = Counts()
    /// Whether the user has more mutations than the counts include.
    public var isTruncated = false
    /// The mutation at the head of the lane.
    ///
    /// This is the mutation that halts the lane. If the lane is not halted, it is the next mutation to run or, if no
    /// mutation can run, the first blocked mutation.
    public var head: Mutation?
    /// The reason why the head does not run; nil if the head runs or is due.
    public var blocker: LaneBlocker?

    public init() {}
}

/// The reason why the head of a lane does not run.
public struct LaneBlocker: Sendable, Hashable {
    public enum Reason: String, Sendable, Hashable, CaseIterable {
        /// An attempt failed, and the next attempt is not due yet.
        case backOff = "back_off"
        /// The lane was postponed, because the gateway could send nothing.
        ///
        /// Either the circuit breaker was open after repeated failures of the upstream, or the last worker of the lane
        /// could not send anything for another reason.
        case circuitOpen = "circuit_open"
        /// The head's entity type is forwarded, but the organization has no upstream.
        case noUpstream = "no_upstream"
        /// An operator has paused the upstream of the head's type.
        case upstreamPaused = "upstream_paused"
        /// The lane is due, but waits because of the upstream's limit of requests per second.
        case rateLimited = "rate_limited"
        /// The head waits for other mutations.
        case blocked
        /// A conflict halts the lane until a person settles it.
        case conflict
        /// A failure halts the lane until a person settles it.
        case failure
    }

    /// The maximum time for which a lane waits because of the upstream's limit of requests per second, in seconds.
    package static let longestRatePause: Double = 1

    public var reason: Reason
    /// When a worker can claim the lane again; nil if this time is unknown.
    public var until: Timestamp?
    /// The mutations for which the head waits, or the mutation that halts the lane.
    public var mutationIDs: [UUID]

    public init(_ reason: Reason, until: Timestamp? = nil, mutationIDs: [UUID] = []) {
        self.reason = reason
        self.until = until
        self.mutationIDs = mutationIDs
    }

    /// Determines the reason; nil if the head runs or is due.
    ///
    /// - Parameters:
    ///   - head: the head of the lane, as in ``Backlog/head``.
    ///   - isForwarded: whether mutations of the head's type are replayed to an upstream.
    ///   - hasUpstream: whether the organization has an upstream.
    ///   - pause: the upstream's pause.
    ///   - isRateLimited: whether the upstream has a limit of requests per second.
    public init?(
        of head: Backlog.Mutation,
        in lane: LaneState,
        isForwarded: Bool,
        hasUpstream: Bool,
        pause: UpstreamPause? = nil,
        isRateLimited: Bool = false,
        now: Timestamp
    ) {
        switch head.status {
        case .conflict: self.init(.conflict, mutationIDs: [head.id])
        case .failed: self.init(.failure, mutationIDs: [head.id])
        case .blocked: self.init(.blocked, mutationIDs: head.dependsOn)
        case .pending:
            // a worker holds the lease; if the lease has expired, the next worker claims the lane soon
            guard lane.lease.owner == nil else { return nil }
            if let due = head.nextRetryAt, due > now {
                self.init(.backOff, until: due)
                return
            }
            let until = lane.readyAt.flatMap { $0 > now ? $0 : nil }
            if isForwarded, !hasUpstream {
                self.init(.noUpstream, until: until)
            } else if isForwarded, let pause, !pause.isOver(at: now) {
                self.init(.upstreamPaused, until: pause.until)
            } else if isForwarded, isRateLimited, let until, until <= now.adding(seconds: Self.longestRatePause) {
                // during the last second of its pause, an open circuit cannot be distinguished from this limit
                self.init(.rateLimited, until: until)
            } else if hasUpstream, until != nil {
                // an open circuit postpones all lanes of the organization, even if their heads need no upstream; a
                // worker also postpones the lane if the organization has no upstream or is suspended
                self.init(.circuitOpen, until: until)
            } else if isForwarded, isRateLimited, let due = lane.readyAt, due.adding(seconds: 1) <= now {
                self.init(.rateLimited)
            } else {
                return nil
            }
        case .inFlight, .succeeded, .discarded, .rejected: return nil
        }
    }
}
