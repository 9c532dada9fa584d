public import Foundation

/// A mutation's row without its content, with all that an answer shows of it.
///
/// A class, since it is passed around a lot and never changes: a copy is one count, not one for each member.
public final class MutationRecord: EntityWrite, Sendable {
    public let id: UUID
    public let idempotencyKey: UUID
    public let deviceID: UUID
    public let sequenceNumber: Int64
    /// Its place in the lane.
    public let position: Int64
    public let operation: Operation
    /// The entity, with its permanent id once that is known.
    public let entity: EntityName
    public let status: MutationStatus
    /// Starts at 1; raised with each new upstream idempotency key.
    ///
    /// That is each time the mutation is sent again as another request.
    public let revision: Int32
    /// The entity's version after the mutation took effect.
    public let version: Int64?
    /// The upstream's ETag of the entity after the mutation took effect there.
    public let etag: String?
    /// Requests sent to an upstream so far; 0 for built-in types.
    public let attemptCount: Int16
    /// When the next retry is due; nil unless an attempt failed.
    public let nextRetryAt: Timestamp?
    /// Mutations that this one waits for while it is blocked.
    public let dependsOn: [UUID]
    /// Set when a strategy or a person settled a conflict.
    public let resolution: ConflictResolution?
    /// HTTP status of the outcome.
    ///
    /// For built-in types, it is the status that a REST API would return.
    public let responseStatus: Int16?
    /// JSON of the upstream's answer.
    ///
    /// Nil for the built-in store, whose answers follow from the rest.
    public let responseBody: [UInt8]?
    /// A problem object as JSON.
    public let error: [UInt8]?
    /// The error as a sentence, of a mutation that waits for a person.
    public let lastError: String?
    /// Recognizes a replay.
    public let fingerprint: Fingerprint
    public let acceptedAt: Timestamp
    /// When the mutation became final; nil until then.
    public let syncedAt: Timestamp?
    /// Members of the answer that are stored and cannot be opened.
    ///
    /// They are shown as null. Normally empty.
    public let unreadable: [String]
    /// Members of the answer that were not read, to limit its size.
    ///
    /// Normally empty.
    public let omitted: [String]
    /// Whether the texts of its user and the upstream were left out.
    ///
    /// They are left out for readers who did not ask for them.
    public let isWithheld: Bool

    /// The defaults are those of a new mutation.
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
        unreadable: [String] = [],
        omitted: [String] = [],
        isWithheld: Bool = false
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
        self.omitted = omitted
        self.isWithheld = isWithheld
    }

    /// A record of a new mutation.
    ///
    /// - Parameters:
    ///   - result: its result in the transaction that accepts it.
    ///   - dependsOn: the mutations that it waits for.
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

    /// The bytes in an answer of the mutations that it waits for.
    public var blockerBytes: Int { status == .blocked ? dependsOn.count * WorkBounds.listedID : 0 }

    /// The record without a large error, a large answer of its upstream and a long list of blockers.
    public var withoutContents: MutationRecord {
        var members = omitted
        let isListLong = blockerBytes > WorkBounds.small
        if isListLong { members.append("blocked_by") }
        var error = error
        if let long = error, long.count > WorkBounds.small {
            error = CurrentOutline(long) == nil ? nil : CurrentOutline.cut(long, place: nil)
            if error == nil { members.append("error") }
        }
        let isBodyLong = responseBody.map { $0.count > WorkBounds.small } ?? false
        if isBodyLong { members.append("response") }
        guard isListLong || isBodyLong || error?.count != self.error?.count else { return self }
        return replacing(
            serverID: entity.serverID,
            error: error,
            omitted: members,
            hasBody: !isBodyLong,
            dependsOn: isListLong ? Array(dependsOn.prefix(WorkBounds.blockers)) : nil
        )
    }

    /// The record with another error.
    public func showing(_ error: [UInt8]) -> MutationRecord { replacing(serverID: entity.serverID, error: error) }

    /// The record of a mutation some of whose members were not read.
    public func omitting(_ members: [String]) -> MutationRecord {
        replacing(serverID: entity.serverID, error: error, omitted: members)
    }

    func replacing(
        serverID: ServerID?,
        error: [UInt8]?,
        omitted: [String]? = nil,
        hasBody: Bool = true,
        dependsOn: [UUID]? = nil
    ) -> MutationRecord {
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
            dependsOn: dependsOn ?? self.dependsOn,
            resolution: resolution,
            responseStatus: responseStatus,
            responseBody: hasBody ? responseBody : nil,
            error: error,
            lastError: lastError,
            fingerprint: fingerprint,
            acceptedAt: acceptedAt,
            syncedAt: syncedAt,
            unreadable: unreadable,
            omitted: omitted ?? self.omitted,
            isWithheld: isWithheld
        )
    }

    /// Whether a mutation that depends on this one may run.
    public var satisfiesDependants: Bool { status.satisfiesDependants(settledBy: resolution) }
}

extension MutationRecord {
    /// The record without what its user and the upstream wrote.
    ///
    /// It lacks the response's body and entity tag, the conflicting entity, and the address of a redirect.
    public var redacted: MutationRecord {
        MutationRecord(
            id: id,
            idempotencyKey: idempotencyKey,
            deviceID: deviceID,
            sequenceNumber: sequenceNumber,
            position: position,
            operation: operation,
            entity: entity,
            status: status,
            revision: revision,
            version: version,
            etag: nil,
            attemptCount: attemptCount,
            nextRetryAt: nextRetryAt,
            dependsOn: dependsOn,
            resolution: resolution,
            responseStatus: responseStatus,
            responseBody: nil,
            error: error.flatMap(StoredProblem.redacted),
            lastError: nil,
            fingerprint: fingerprint,
            acceptedAt: acceptedAt,
            syncedAt: syncedAt,
            unreadable: unreadable,
            omitted: omitted,
            isWithheld: true
        )
    }
}
