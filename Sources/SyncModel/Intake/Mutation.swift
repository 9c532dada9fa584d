package import Foundation
package import JSONText

/// One create, update, replace or delete, captured offline (seed 001), checked on its own: only ``MutationDecoder``
/// builds one, so a rule that needs nothing but the mutation holds wherever there is one.
///
/// A class, for it is passed around a lot and never changes: a copy is one count, not one for each member.
package final class Mutation: Sendable {
    /// The client's id of the mutation, unique per user (seed 001, `id`).
    package let id: UUID
    /// Unique per user; the same with the same content is a repetition (seed 001, `idempotency_key_unique_per_mutation`).
    package let idempotencyKey: UUID
    /// Position in the device's own count, 1 or more.
    package let sequenceNumber: Int64
    /// What is done to the entity.
    package let operation: Operation
    /// Domain type, `[a-z][a-z0-9_-]{0,63}` (seed 001, `entity_type`).
    package let entityType: String
    /// The client id of the entity (seed 000); nil where the server id names it. Where the device gave an id of its own,
    /// the UUID that stands for it (``LocalID/clientID(on:)``).
    package let localID: UUID?
    /// The device's own id of the entity, in types with device ids (seed 002).
    package let localNumber: Int64?
    /// The permanent id, as the server gave it; nil where the client does not know it.
    package let serverID: ServerID?
    /// Where to replay the mutation; needed for types that are forwarded only.
    package let endpoint: Endpoint?
    /// The body as the client wrote it; nil for none and for JSON's null.
    package let payload: JSONValue?
    /// Names in lower case.
    package let headers: JSONValue?
    /// Ids of mutations, or client ids of entities, that must be there first; no duplicates, 500 at most.
    package let dependencyIDs: [UUID]
    /// 0 to 1,000; nil means the entity type's default.
    package let priority: Int16?
    /// 1 to 100.
    package let maxAttempts: Int16
    /// Nil means the organization's default.
    package let conflictResolution: ConflictResolution?
    /// The version that the client saw, 0 or more.
    package let baseVersion: Int64?
    /// Device-local time of capture; orders nothing here, tells staleness.
    package let createdAt: Timestamp
    /// What makes a repetition recognizable.
    package let fingerprint: Fingerprint
    /// Distinct UUIDs in endpoint and payload, in order of appearance: those that may be client ids.
    package let references: [UUID]

    init(
        id: UUID,
        idempotencyKey: UUID,
        sequenceNumber: Int64,
        operation: Operation,
        entityType: String,
        localID: UUID?,
        localNumber: Int64?,
        serverID: ServerID?,
        endpoint: Endpoint?,
        payload: JSONValue?,
        headers: JSONValue?,
        dependencyIDs: [UUID],
        priority: Int16?,
        maxAttempts: Int16,
        conflictResolution: ConflictResolution?,
        baseVersion: Int64?,
        createdAt: Timestamp,
        fingerprint: Fingerprint,
        references: [UUID]
    ) {
        self.id = id
        self.idempotencyKey = idempotencyKey
        self.sequenceNumber = sequenceNumber
        self.operation = operation
        self.entityType = entityType
        self.localID = localID
        self.localNumber = localNumber
        self.serverID = serverID
        self.endpoint = endpoint
        self.payload = payload
        self.headers = headers
        self.dependencyIDs = dependencyIDs
        self.priority = priority
        self.maxAttempts = maxAttempts
        self.conflictResolution = conflictResolution
        self.baseVersion = baseVersion
        self.createdAt = createdAt
        self.fingerprint = fingerprint
        self.references = references
    }

    /// Whether it is about an entity that may have been there before: anything but a create that waits for its id.
    package var namesKnownEntity: Bool { operation != .create || serverID != nil }
}
