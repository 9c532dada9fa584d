package import Foundation

/// What of a user's mutations is not final: counted by device and in the lane, and what runs next.
package struct Backlog: Sendable, Hashable {
    /// Mutations that are not final, by status.
    package struct Counts: Sendable, Hashable {
        private var numbers: [MutationStatus: Int64] = [:]

        /// Of none.
        package init() {}

        /// How many there are of a status; 0 for those that are final.
        package subscript(status: MutationStatus) -> Int64 { numbers[status] ?? 0 }

        /// Counts `number` more of a status.
        package mutating func add(_ number: Int64, of status: MutationStatus) {
            numbers[status, default: 0] += number
        }
    }

    /// One of the user's devices.
    package struct Device: Sendable, Hashable {
        /// The installation.
        package var id: UUID
        /// The highest sequence number judged.
        package var acceptedSequence: Int64
        /// When it pushed or registered last.
        package var lastSeenAt: Timestamp
        /// Its mutations.
        package var counts = Counts()
        /// The first of them, in lane order, that runs or waits for its turn or for another mutation.
        package var oldestPending: Mutation?

        /// A device without mutations.
        package init(id: UUID, acceptedSequence: Int64, lastSeenAt: Timestamp) {
            self.id = id
            self.acceptedSequence = acceptedSequence
            self.lastSeenAt = lastSeenAt
        }
    }

    /// As much of a mutation as a backlog shows.
    package struct Mutation: Sendable, Hashable {
        /// The client's id of the mutation.
        package var id: UUID
        /// The device that sent it.
        package var deviceID: UUID
        /// Its number in that device's count.
        package var sequenceNumber: Int64
        /// Place in the lane.
        package var position: Int64
        /// Where it stands.
        package var status: MutationStatus
        /// What it does to its entity.
        package var operation: Operation
        package var entityType: String
        /// Requests sent to the upstream so far.
        package var attemptCount: Int16
        /// When the next try is due, after one that failed.
        package var nextRetryAt: Timestamp?
        /// The device's time.
        package var createdAt: Timestamp
        package var acceptedAt: Timestamp
        /// Mutations that it waits for, while it is blocked.
        package var dependsOn: [UUID]

        package init(
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
    package var devices: [Device] = []
    /// The mutations of all devices.
    package var counts = Counts()
    /// Whether there are more mutations than were counted.
    package var isTruncated = false
    /// What halts the lane, else what runs next, else the first that is blocked.
    package var head: Mutation?
    /// What keeps the head from running.
    package var hold: LaneHold?

    /// Of a user who has none.
    package init() {}
}
