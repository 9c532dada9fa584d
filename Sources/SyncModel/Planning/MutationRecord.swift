package import Foundation

/// A mutation as it stands: what its row holds besides the content, and all that an answer shows of it.
///
/// A class, for it is passed around a lot and never changes: a copy is one count, not one for each member.
package final class MutationRecord: Sendable {
    /// The client's id of the mutation.
    package let id: UUID
    /// The key that a repetition comes under.
    package let idempotencyKey: UUID
    /// The device that sent it.
    package let deviceID: UUID
    /// Its number in that device's count.
    package let sequenceNumber: Int64
    /// Place in the lane.
    package let position: Int64
    /// What it does to its entity.
    package let operation: Operation
    /// The entity's type.
    package let entityType: String
    /// Where it stands.
    package let status: MutationStatus
    /// 1, and one more for each time a person sent it again with a new upstream key.
    package let revision: Int32
    /// The entity's client id, when the mutation named it so.
    package let localID: UUID?
    /// The device's own id of the entity, when that is how the mutation named it.
    package let localNumber: Int64?
    /// The entity's permanent id, once it is known.
    package let serverID: ServerID?
    /// The entity's version after the mutation took effect.
    package let version: Int64?
    /// The upstream's validator of the entity after the mutation took effect there.
    package let etag: String?
    /// Requests sent to an upstream so far; 0 for built-in types.
    package let attemptCount: Int16
    /// When the next try is due, after one that failed.
    package let nextRetryAt: Timestamp?
    /// Mutations that this one waits for, while it is blocked.
    package let dependsOn: [UUID]
    /// Set when a strategy or a person settled a conflict.
    package let resolution: ConflictResolution?
    /// HTTP status of the outcome; what a REST API would say, for built-in types.
    package let responseStatus: Int16?
    /// JSON of the upstream's answer; nil for the built-in store, whose answers follow from the rest.
    package let responseBody: [UInt8]?
    /// Problem object as JSON.
    package let error: [UInt8]?
    /// The error in words, of a mutation that waits for a person.
    package let lastError: String?
    /// What a repetition is recognized by.
    package let fingerprint: Fingerprint
    /// When the mutation was accepted.
    package let acceptedAt: Timestamp
    /// When it became final; set exactly then.
    package let syncedAt: Timestamp?
    /// Members of the answer that are stored and cannot be opened: they are shown as null. None, as a rule.
    package let unreadable: [String]

    /// Creates a record; what is left out has the value of a new mutation.
    package init(
        id: UUID,
        idempotencyKey: UUID,
        deviceID: UUID,
        sequenceNumber: Int64,
        position: Int64,
        operation: Operation,
        entityType: String,
        status: MutationStatus,
        revision: Int32 = 1,
        localID: UUID?,
        localNumber: Int64? = nil,
        serverID: ServerID?,
        version: Int64? = nil,
        etag: String? = nil,
        attemptCount: Int16 = 0,
        nextRetryAt: Timestamp? = nil,
        dependsOn: [UUID] = [],
        resolution: ConflictResolution? = nil,
        responseStatus: Int16? = nil,
        responseBody: [UInt8]? = nil,
        error: [UInt8]? = nil,
        lastError: String? = nil,
        fingerprint: Fingerprint,
        acceptedAt: Timestamp,
        syncedAt: Timestamp? = nil,
        unreadable: [String] = []
    ) {
        self.id = id
        self.idempotencyKey = idempotencyKey
        self.deviceID = deviceID
        self.sequenceNumber = sequenceNumber
        self.position = position
        self.operation = operation
        self.entityType = entityType
        self.status = status
        self.revision = revision
        self.localID = localID
        self.localNumber = localNumber
        self.serverID = serverID
        self.version = version
        self.etag = etag
        self.attemptCount = attemptCount
        self.nextRetryAt = nextRetryAt
        self.dependsOn = dependsOn
        self.resolution = resolution
        self.responseStatus = responseStatus
        self.responseBody = responseBody
        self.error = error
        self.lastError = lastError
        self.fingerprint = fingerprint
        self.acceptedAt = acceptedAt
        self.syncedAt = syncedAt
        self.unreadable = unreadable
    }

    /// Whether a mutation that depends on this one may run.
    package var satisfiesDependants: Bool { status.satisfiesDependants(settledBy: resolution) }
}

/// Client id → server id of one user (seed 000).
package struct IDMapping: Sendable, Hashable {
    /// Where a mapping stands (seed 000, `status`).
    package enum Status: String, Sendable, Hashable, CaseIterable {
        case pending
        /// Has a server id (seed 000, `resolved_requires_server_id`; a CHECK says so too).
        case resolved
        case failed
    }

    /// The entity's type.
    package var entityType: String
    /// The temporary id; it never changes (seed 000, `client_id_immutable`).
    package var clientID: UUID
    /// The permanent id, once it is known.
    package var serverID: ServerID?
    /// Where the mapping stands.
    package var status: Status
    /// The create that brings the entity into being.
    package var mutationID: UUID
    /// Whether nothing will ever resolve it: its create was discarded. Another create may take the client id over.
    package var isAbandoned = false
    /// The device's own id, where the client id stands for one.
    package var localNumber: Int64?

    /// A mapping whose create has not run yet.
    package init(entityType: String, clientID: UUID, mutationID: UUID) {
        self.entityType = entityType
        self.clientID = clientID
        self.mutationID = mutationID
        status = .pending
    }

    /// A mapping from its stored form.
    package init(
        entityType: String,
        clientID: UUID,
        serverID: ServerID?,
        status: Status,
        mutationID: UUID,
        isAbandoned: Bool = false
    ) {
        self.entityType = entityType
        self.clientID = clientID
        self.serverID = serverID
        self.status = status
        self.mutationID = mutationID
        self.isAbandoned = isAbandoned
    }
}

/// What is kept of a refused entry: the same key and number answer the same refusal (product rule 5).
package struct Rejection: Sendable {
    /// The key that the entry came under.
    package var idempotencyKey: UUID
    /// The entry's id, when it could be read.
    package var id: UUID?
    /// The device that sent it.
    package var deviceID: UUID
    /// The number that it was refused under.
    package var sequenceNumber: Int64
    /// Problem object as JSON.
    package var error: [UInt8]

    /// Creates the value.
    package init(idempotencyKey: UUID, id: UUID?, deviceID: UUID, sequenceNumber: Int64, error: [UInt8]) {
        self.idempotencyKey = idempotencyKey
        self.id = id
        self.deviceID = deviceID
        self.sequenceNumber = sequenceNumber
        self.error = error
    }
}
