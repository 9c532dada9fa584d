public import Foundation
public import JSONText

/// One create, update, replace or delete, captured offline (seed 001).
///
/// It is checked on its own: only ``MutationDecoder`` builds one, so every instance satisfies the rules that need
/// nothing but the mutation.
///
/// A class, since it is passed around a lot and never changes: a copy is one count, not one for each member.
public final class Mutation: EntityWrite, Sendable {
    /// Unique per user (seed 001, `id`).
    public let id: UUID
    /// Unique per user; the same key with the same content is a replay.
    ///
    /// Seed 001, `idempotency_key_unique_per_mutation`.
    public let idempotencyKey: UUID
    /// Position in the device's own count, 1 or more.
    public let sequenceNumber: Int64
    public let operation: Operation
    /// The entity (seed 001, `entity_type`; seed 000).
    ///
    /// It is named by its client id, by the device's own id (seed 002), or by the permanent id, as the server gave it,
    /// where the client has that.
    public let entity: EntityName
    /// Where to replay the mutation; required only for forwarded types.
    public let endpoint: Endpoint?
    /// The body as the client wrote it; nil for none and for JSON's null.
    public let payload: JSONValue?
    /// Names in lower case.
    public let headers: JSONValue?
    /// Ids of mutations, or client ids of entities, that must exist first.
    ///
    /// No duplicates, 500 at most.
    public let dependencyIDs: [UUID]
    /// 0 to 1,000; nil means the entity type's default.
    public let priority: Int16?
    /// 1 to 100.
    public let maxAttempts: Int16
    /// Nil means the organization's default.
    public let conflictResolution: ConflictResolution?
    /// The version that the client saw, 0 or more.
    public let baseVersion: Int64?
    /// Device-local time of capture; it orders nothing here, and shows staleness.
    public let createdAt: Timestamp
    /// Recognizes a replay.
    public let fingerprint: Fingerprint
    /// Distinct UUIDs in endpoint and payload, in order of appearance.
    ///
    /// They are possible client ids.
    public let references: [UUID]

    /// - Returns: nil where a required member is missing.
    init?(_ content: MutationContent, _ entity: EntityName?) {
        guard let id = content.id, let idempotencyKey = content.idempotencyKey, let entity,
            let sequenceNumber = content.sequenceNumber, let operation = content.operation
        else { return nil }
        self.id = id
        self.idempotencyKey = idempotencyKey
        self.sequenceNumber = sequenceNumber
        self.operation = operation
        self.entity = entity
        endpoint = content.endpoint
        payload = content.payload
        headers = content.headers
        dependencyIDs = content.dependencyIDs
        priority = content.priority
        maxAttempts = content.maxAttempts
        conflictResolution = content.conflictResolution
        baseVersion = content.baseVersion
        createdAt = content.createdAt ?? Timestamp(microseconds: 0)
        fingerprint = Fingerprint(of: content, operation, entity)
        references = content.references
    }
}
