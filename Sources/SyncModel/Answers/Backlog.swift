package import Foundation
import JSONText

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
        /// The entity's type.
        package var entityType: String
        /// Requests sent to the upstream so far.
        package var attemptCount: Int16
        /// When the next try is due, after one that failed.
        package var nextRetryAt: Timestamp?
        /// The device's time.
        package var createdAt: Timestamp
        /// When it was accepted.
        package var acceptedAt: Timestamp
        /// Mutations that it waits for, while it is blocked.
        package var dependsOn: [UUID]

        /// Creates the value.
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

// MARK: - JSON

extension Backlog {
    /// `{"devices":[…],"lane":{…}}`
    package func json() -> [UInt8] {
        var writer = JSONWriter(capacity: 512 + devices.count * 448)
        writer.beginObject()
        writer.name("devices")
        writer.beginArray()
        for device in devices { device.write(to: &writer) }
        writer.endArray()
        writer.name("lane")
        writer.beginObject()
        counts.write(to: &writer)
        writer.member("is_truncated", isTruncated)
        writer.name("head")
        if let head { head.writeHead(to: &writer) } else { writer.null() }
        writer.heldBy(hold)
        writer.endObject()
        writer.endObject()
        return writer.bytes
    }
}

extension Backlog.Counts {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.name("counts")
        writer.beginObject()
        for status in [MutationStatus.pending, .blocked, .inFlight, .conflict, .failed] {
            writer.name(status.rawValue)
            writer.int(self[status])
        }
        writer.endObject()
    }
}

extension Backlog.Device {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("device_id", id)
        writer.member("accepted_sequence", acceptedSequence)
        writer.member("last_seen_at", lastSeenAt.rfc3339)
        counts.write(to: &writer)
        writer.name("oldest_pending")
        if let oldestPending { oldestPending.writeOldest(to: &writer) } else { writer.null() }
        writer.endObject()
    }
}

extension Backlog.Mutation {
    fileprivate func writeOldest(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("id", id)
        writer.member("sequence_number", sequenceNumber)
        writer.member("status", status.rawValue)
        writer.member("created_at", createdAt.rfc3339)
        writer.member("accepted_at", acceptedAt.rfc3339)
        writer.endObject()
    }

    fileprivate func writeHead(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("id", id)
        writer.member("device_id", deviceID)
        writer.member("sequence_number", sequenceNumber)
        writer.member("status", status.rawValue)
        writer.member("operation", operation.rawValue)
        writer.member("entity_type", entityType)
        writer.member("attempt_count", Int64(attemptCount))
        writer.member("next_retry_at", nextRetryAt?.rfc3339)
        writer.name("blocked_by")
        writer.beginArray()
        if status == .blocked {
            for id in dependsOn { writer.uuid(id) }
        }
        writer.endArray()
        writer.endObject()
    }
}

extension JSONWriter {
    /// Writes the member `held_by`, as every answer that has it shows it.
    mutating func heldBy(_ hold: LaneHold?) {
        name("held_by")
        if let hold { hold.write(to: &self) } else { null() }
    }
}

extension LaneHold {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("reason", reason.rawValue)
        writer.member("until", until?.rfc3339)
        writer.name("mutation_ids")
        writer.beginArray()
        for id in mutationIDs { writer.uuid(id) }
        writer.endArray()
        writer.endObject()
    }
}
