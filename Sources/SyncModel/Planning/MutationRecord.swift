public import Foundation

/// A mutation as it stands: what its row holds besides the content, and all that an answer shows of it.
///
/// A class, for it is passed around a lot and never changes: a copy is one count, not one for each member.
public final class MutationRecord: EntityWrite, Sendable {
    /// The client's id of the mutation.
    public let id: UUID
    /// The key that a repetition comes under.
    public let idempotencyKey: UUID
    /// The device that sent it.
    public let deviceID: UUID
    /// Its number in that device's count.
    public let sequenceNumber: Int64
    /// Place in the lane.
    public let position: Int64
    /// What it does to its entity.
    public let operation: Operation
    /// The entity, with its permanent id once that is known.
    public let entity: EntityName
    /// Where it stands.
    public let status: MutationStatus
    /// 1, and one more for each time a person sent it again with a new upstream key.
    public let revision: Int32
    /// The entity's version after the mutation took effect.
    public let version: Int64?
    /// The upstream's validator of the entity after the mutation took effect there.
    public let etag: String?
    /// Requests sent to an upstream so far; 0 for built-in types.
    public let attemptCount: Int16
    /// When the next try is due, after one that failed.
    public let nextRetryAt: Timestamp?
    /// Mutations that this one waits for, while it is blocked.
    public let dependsOn: [UUID]
    /// Set when a strategy or a person settled a conflict.
    public let resolution: ConflictResolution?
    /// HTTP status of the outcome; what a REST API would say, for built-in types.
    public let responseStatus: Int16?
    /// JSON of the upstream's answer; nil for the built-in store, whose answers follow from the rest.
    public let responseBody: [UInt8]?
    /// Problem object as JSON.
    public let error: [UInt8]?
    /// The error in words, of a mutation that waits for a person.
    public let lastError: String?
    /// What a repetition is recognized by.
    public let fingerprint: Fingerprint
    /// When the mutation was accepted.
    public let acceptedAt: Timestamp
    /// When it became final; set exactly then.
    public let syncedAt: Timestamp?
    /// Members of the answer that are stored and cannot be opened: they are shown as null. None, as a rule.
    public let unreadable: [String]

    /// Creates a record; what is left out has the value of a new mutation.
    public init(
        id: UUID,
        idempotencyKey: UUID,
        deviceID: UUID,
        sequenceNumber: Int64,
        position: Int64,
        operation: Operation,
        entity: EntityName,
        status: MutationStatus,
        revision: Int32 = 1,
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
        self.entity = entity
        self.status = status
        self.revision = revision
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

    /// A record of what is new.
    ///
    /// - Parameters:
    ///   - result: what came of it in the transaction that accepts it.
    ///   - dependsOn: what it waits for.
    convenience init(
        _ mutation: Mutation,
        deviceID: UUID,
        position: Int64,
        _ result: BuiltInStore.Result,
        dependsOn: [UUID],
        fingerprint: Fingerprint,
        acceptedAt: Timestamp
    ) {
        self.init(
            id: mutation.id,
            idempotencyKey: mutation.idempotencyKey,
            deviceID: deviceID,
            sequenceNumber: mutation.sequenceNumber,
            position: position,
            operation: mutation.operation,
            entity: mutation.entity.with(result.serverID),
            status: result.status,
            version: result.version,
            dependsOn: dependsOn,
            resolution: result.resolution,
            responseStatus: result.responseStatus,
            error: result.error,
            lastError: result.lastError,
            fingerprint: fingerprint,
            acceptedAt: acceptedAt,
            syncedAt: result.status.isFinal ? acceptedAt : nil
        )
    }

    /// The same with another server id and error.
    func replacing(serverID: ServerID?, error: [UInt8]?) -> MutationRecord {
        MutationRecord(
            id: id,
            idempotencyKey: idempotencyKey,
            deviceID: deviceID,
            sequenceNumber: sequenceNumber,
            position: position,
            operation: operation,
            entity: entity.with(serverID),
            status: status,
            revision: revision,
            version: version,
            etag: etag,
            attemptCount: attemptCount,
            nextRetryAt: nextRetryAt,
            dependsOn: dependsOn,
            resolution: resolution,
            responseStatus: responseStatus,
            responseBody: responseBody,
            error: error,
            lastError: lastError,
            fingerprint: fingerprint,
            acceptedAt: acceptedAt,
            syncedAt: syncedAt
        )
    }

    /// Whether a mutation that depends on this one may run.
    public var satisfiesDependants: Bool { status.satisfiesDependants(settledBy: resolution) }
}
