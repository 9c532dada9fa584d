public import Foundation

/// A mutation as it stands: what its row holds besides the content, and all that an answer shows of it.
public struct MutationRecord: Sendable {
    public var id: UUID
    public var idempotencyKey: UUID
    public var deviceID: UUID
    public var sequenceNumber: Int64
    /// Place in the lane.
    public var position: Int64
    public var operation: Operation
    public var entityType: String
    public var status: MutationStatus
    /// 1, and one more for each time a person sent it again with a new upstream key.
    public var revision: Int32 = 1
    public var localID: UUID?
    public var serverID: ServerID?
    /// The entity's version after the mutation took effect.
    public var version: Int64?
    public var attemptCount: Int16 = 0
    public var nextRetryAt: Timestamp?
    /// Mutations that this one waits for, while it is blocked.
    public var dependsOn: [UUID] = []
    /// Set when a strategy or a person settled a conflict.
    public var resolution: ConflictResolution?
    public var responseStatus: Int16?
    /// JSON of the upstream's answer; nil for the built-in store, whose answers follow from the rest.
    public var responseBody: [UInt8]?
    /// Problem object as JSON.
    public var error: [UInt8]?
    /// The error in words, of a mutation that waits for a person.
    public var lastError: String?
    public var fingerprint: Fingerprint
    public var acceptedAt: Timestamp
    public var syncedAt: Timestamp?

    /// Creates a record; what is left out has the value of a new mutation.
    public init(
        id: UUID,
        idempotencyKey: UUID,
        deviceID: UUID,
        sequenceNumber: Int64,
        position: Int64,
        operation: Operation,
        entityType: String,
        status: MutationStatus,
        localID: UUID?,
        serverID: ServerID?,
        fingerprint: Fingerprint,
        acceptedAt: Timestamp
    ) {
        self.id = id
        self.idempotencyKey = idempotencyKey
        self.deviceID = deviceID
        self.sequenceNumber = sequenceNumber
        self.position = position
        self.operation = operation
        self.entityType = entityType
        self.status = status
        self.localID = localID
        self.serverID = serverID
        self.fingerprint = fingerprint
        self.acceptedAt = acceptedAt
    }

    /// Whether a mutation that depends on this one may run: it succeeded, or `server_wins` discarded it and so adopted
    /// the server's entity (product rule 3).
    public var satisfiesDependants: Bool {
        status == .succeeded || (status == .discarded && resolution == .serverWins)
    }
}

/// Client id → server id of one user (seed 000).
public struct IDMapping: Sendable, Hashable {
    /// Where a mapping stands (seed 000, `status`).
    public enum Status: String, Sendable, Hashable, CaseIterable {
        case pending
        /// Has a server id (seed 000, `resolved_requires_server_id`; a CHECK says so too).
        case resolved
        case failed
    }

    public var entityType: String
    public var clientID: UUID
    public var serverID: ServerID?
    public var status: Status
    /// The create that brings the entity into being.
    public var mutationID: UUID

    /// A mapping whose create has not run yet.
    public init(entityType: String, clientID: UUID, mutationID: UUID) {
        self.entityType = entityType
        self.clientID = clientID
        self.mutationID = mutationID
        status = .pending
    }

    /// A mapping from its stored form.
    public init(entityType: String, clientID: UUID, serverID: ServerID?, status: Status, mutationID: UUID) {
        self.entityType = entityType
        self.clientID = clientID
        self.serverID = serverID
        self.status = status
        self.mutationID = mutationID
    }
}

/// What is kept of a refused entry: the same key and number answer the same refusal (product rule 5).
public struct Rejection: Sendable {
    public var idempotencyKey: UUID
    public var id: UUID?
    public var deviceID: UUID
    public var sequenceNumber: Int64
    /// Problem object as JSON.
    public var error: [UInt8]

    /// Creates the value.
    public init(idempotencyKey: UUID, id: UUID?, deviceID: UUID, sequenceNumber: Int64, error: [UInt8]) {
        self.idempotencyKey = idempotencyKey
        self.id = id
        self.deviceID = deviceID
        self.sequenceNumber = sequenceNumber
        self.error = error
    }
}
