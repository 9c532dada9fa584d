package import Foundation

/// A stored mutation as the one who runs its lane needs it: its content, and where its attempts stand.
///
/// A class, for it is passed around a lot and never changes.
package final class QueuedMutation: Sendable {
    /// The client's id of the mutation.
    package let id: UUID
    /// The device that sent it.
    package let deviceID: UUID
    /// Place in the lane.
    package let position: Int64
    /// When it was accepted.
    package let acceptedAt: Timestamp
    /// What it does to its entity.
    package let operation: Operation
    /// The entity's type.
    package let entityType: String
    /// The entity's client id, when the mutation named it so.
    package let localID: UUID?
    /// The device's own id of the entity, when that is how the mutation named it.
    package let localNumber: Int64?
    /// The entity's permanent id, when it was known on acceptance.
    package let serverID: ServerID?
    /// Where to replay it; nil for built-in types that give none.
    package let endpoint: String?
    /// The body as the client wrote it.
    package let payload: [UInt8]?
    /// The mutation's headers, a JSON object of strings.
    package let headers: [UInt8]?
    /// The version that the client saw.
    package let baseVersion: Int64?
    /// Client ids of the user in endpoint and payload, and the entity's own unless this creates it.
    package let references: [UUID]
    /// The types in which these were created, as its push or a person's edit decided. What was accepted before that was
    /// noted has none.
    package let referenceTypes: [UUID: String]
    /// 1, and one more for each time it was sent again with a new upstream key.
    package let revision: Int32
    /// Requests sent so far.
    package let attemptCount: Int16
    /// Requests that may be sent before it fails.
    package let maxAttempts: Int16
    /// When the next try is due; nil for at once.
    package let nextRetryAt: Timestamp?
    /// How a conflict is settled.
    package let strategy: ConflictResolution
    /// Set when a strategy or a person settled a conflict in this revision.
    package let resolution: ConflictResolution?
    /// Whether the last request of this revision may have taken effect without our knowing.
    package let isOutcomeUnknown: Bool
    /// 409s that were taken for an echo of an earlier attempt.
    package let conflictRetries: Int16
    /// Set while the upstream's last answers may be the operator's trouble.
    package let hold: MutationHold?
    /// What this revision sends to have its way in a conflict; nil for what the client wrote.
    package let override: SentRequest?
    /// The problem that is kept beside a settled conflict, JSON.
    package let error: [UInt8]?
    /// W3C trace context of the push.
    package let traceparent: String?
    /// What of it cannot be opened, so that it cannot be sent. Nothing, as a rule.
    package let unreadable: [String]

    /// Creates the value.
    package init(
        id: UUID,
        deviceID: UUID,
        position: Int64,
        acceptedAt: Timestamp,
        operation: Operation,
        entityType: String,
        localID: UUID?,
        localNumber: Int64? = nil,
        serverID: ServerID?,
        endpoint: String?,
        payload: [UInt8]?,
        headers: [UInt8]?,
        baseVersion: Int64?,
        references: [UUID],
        referenceTypes: [UUID: String] = [:],
        revision: Int32,
        attemptCount: Int16,
        maxAttempts: Int16,
        nextRetryAt: Timestamp?,
        strategy: ConflictResolution,
        resolution: ConflictResolution?,
        isOutcomeUnknown: Bool,
        conflictRetries: Int16,
        hold: MutationHold? = nil,
        override: SentRequest?,
        error: [UInt8]?,
        traceparent: String?,
        unreadable: [String] = []
    ) {
        self.id = id
        self.deviceID = deviceID
        self.position = position
        self.acceptedAt = acceptedAt
        self.operation = operation
        self.entityType = entityType
        self.localID = localID
        self.localNumber = localNumber
        self.serverID = serverID
        self.endpoint = endpoint
        self.payload = payload
        self.headers = headers
        self.baseVersion = baseVersion
        self.references = references
        self.referenceTypes = referenceTypes
        self.revision = revision
        self.attemptCount = attemptCount
        self.maxAttempts = maxAttempts
        self.nextRetryAt = nextRetryAt
        self.strategy = strategy
        self.resolution = resolution
        self.isOutcomeUnknown = isOutcomeUnknown
        self.conflictRetries = conflictRetries
        self.hold = hold
        self.override = override
        self.error = error
        self.traceparent = traceparent
        self.unreadable = unreadable
    }

    /// The trace that belongs to its requests and to what is logged of them: the one of the push, else one of the
    /// mutation's id, so that all attempts are found together.
    package var trace: TraceContext { traceparent.flatMap(TraceContext.init(traceparent:)) ?? TraceContext(of: id) }
}
