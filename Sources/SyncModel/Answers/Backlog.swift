public import Foundation

/// What of a user's mutations is not final: counted by device and in the lane, and what runs next.
public struct Backlog: Sendable, Hashable {
    /// Mutations that are not final, by status.
    public struct Counts: Sendable, Hashable {
        private var numbers: [MutationStatus: Int64] = [:]

        /// Of none.
        public init() {}

        /// How many there are of a status; 0 for those that are final.
        public subscript(status: MutationStatus) -> Int64 { numbers[status] ?? 0 }

        /// Counts `number` more of a status.
        public mutating func add(_ number: Int64, of status: MutationStatus) {
            numbers[status, default: 0] += number
        }
    }

    /// One of the user's devices.
    public struct Device: Sendable, Hashable {
        /// The installation.
        public var id: UUID
        /// The highest sequence number judged.
        public var acceptedSequence: Int64
        /// When it pushed or registered last.
        public var lastSeenAt: Timestamp
        /// Its mutations.
        public var counts = Counts()
        /// The first of them, in lane order, that runs or waits for its turn or for another mutation.
        public var oldestPending: Mutation?

        /// A device without mutations.
        public init(id: UUID, acceptedSequence: Int64, lastSeenAt: Timestamp) {
            self.id = id
            self.acceptedSequence = acceptedSequence
            self.lastSeenAt = lastSeenAt
        }
    }

    /// As much of a mutation as a backlog shows.
    public struct Mutation: Sendable, Hashable {
        /// The client's id of the mutation.
        public var id: UUID
        /// The device that sent it.
        public var deviceID: UUID
        /// Its number in that device's count.
        public var sequenceNumber: Int64
        /// Place in the lane.
        public var position: Int64
        /// Where it stands.
        public var status: MutationStatus
        /// What it does to its entity.
        public var operation: Operation
        public var entityType: String
        /// Requests sent to the upstream so far.
        public var attemptCount: Int16
        /// When the next try is due, after one that failed.
        public var nextRetryAt: Timestamp?
        /// The device's time.
        public var createdAt: Timestamp
        public var acceptedAt: Timestamp
        /// Mutations that it waits for, while it is blocked.
        public var dependsOn: [UUID]

        public init(
            id: UUID,
            deviceID: UUID,
            sequenceNumber: Int64,
            position: Int64,
            status: MutationStatus,
            operation: Operation,
            entityType: String,
            attemptCount: Int16,
            nextRetryAt: Timestamp?,
            createdAt: Timestamp,
            acceptedAt: Timestamp,
            dependsOn: [UUID]
        ) {
            self.id = id
            self.deviceID = deviceID
            self.sequenceNumber = sequenceNumber
            self.position = position
            self.status = status
            self.operation = operation
            self.entityType = entityType
            self.attemptCount = attemptCount
            self.nextRetryAt = nextRetryAt
            self.createdAt = createdAt
            self.acceptedAt = acceptedAt
            self.dependsOn = dependsOn
        }
    }

    /// Those seen last come first.
    public var devices: [Device] = []
    /// The mutations of all devices.
    public var counts = Counts()
    /// Whether there are more mutations than were counted.
    public var isTruncated = false
    /// What halts the lane, else what runs next, else the first that is blocked.
    public var head: Mutation?
    /// What keeps the head from running.
    public var hold: LaneHold?

    /// Of a user who has none.
    public init() {}
}
