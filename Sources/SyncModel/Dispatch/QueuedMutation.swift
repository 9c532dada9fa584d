public import Foundation
import JSONText

/// A stored mutation as the one who runs its lane needs it: its content, and where its attempts stand.
public struct QueuedMutation: EntityWrite, Sendable {
    /// The client's id of the mutation.
    public let id: UUID
    /// The device that sent it.
    public let deviceID: UUID
    /// Place in the lane.
    public let position: Int64
    /// When it was accepted.
    public let acceptedAt: Timestamp
    /// What it does to its entity.
    public let operation: Operation
    /// The entity; with the permanent id when that was known on acceptance, or is by now.
    public let entity: EntityName
    /// Where to replay it; nil for built-in types that give none.
    public var endpoint: Endpoint?
    /// The body as the client wrote it.
    public var payload: [UInt8]?
    /// The mutation's headers, a JSON object of strings.
    public var headers: [UInt8]?
    /// The version that the client saw.
    public var baseVersion: Int64?
    /// Client ids of the user in endpoint and payload, and the entity's own unless this creates it.
    public var references = References()
    /// 1, and one more for each time it was sent again with a new upstream key.
    public var revision: Int32 = 1
    /// Requests sent so far.
    public var attemptCount: Int16 = 0
    /// Requests that may be sent before it fails.
    public let maxAttempts: Int16
    /// When the next try is due; nil for at once.
    public var nextRetryAt: Timestamp?
    /// How a conflict is settled.
    public let conflictResolution: ConflictResolution
    /// Set when a strategy or a person settled a conflict in this revision.
    public var resolution: ConflictResolution?
    /// Whether the last request of this revision may have taken effect without our knowing.
    public var isOutcomeUnknown = false
    /// 409s that were taken for an echo of an earlier attempt.
    public var conflictRetries: Int16 = 0
    /// Set while the upstream's last answers may be the operator's trouble.
    public var hold: MutationHold?
    /// What this revision sends to have its way in a conflict; nil for what the client wrote.
    public var override: SentRequest?
    /// The problem that is kept beside a settled conflict, JSON.
    public var error: [UInt8]?
    /// W3C trace context of the push.
    public var traceparent: String?
    /// What of it cannot be opened, so that it cannot be sent. Nothing, as a rule.
    public var unreadable: [String] = []

    /// A mutation that was never sent; the rest is set as far as it has any.
    public init(
        id: UUID,
        deviceID: UUID,
        position: Int64,
        acceptedAt: Timestamp,
        operation: Operation,
        entity: EntityName,
        maxAttempts: Int16,
        conflictResolution: ConflictResolution
    ) {
        self.id = id
        self.deviceID = deviceID
        self.position = position
        self.acceptedAt = acceptedAt
        self.operation = operation
        self.entity = entity
        self.maxAttempts = maxAttempts
        self.conflictResolution = conflictResolution
    }

    /// A new mutation as it will wait for its turn.
    init(_ new: NewMutation) {
        let mutation = new.mutation
        self.init(
            id: mutation.id,
            deviceID: new.record.deviceID,
            position: new.record.position,
            acceptedAt: new.record.acceptedAt,
            operation: mutation.operation,
            entity: new.record.entity,
            maxAttempts: mutation.maxAttempts,
            conflictResolution: new.conflictResolution
        )
        endpoint = mutation.endpoint
        payload = mutation.payload.map { Array($0.raw) }
        headers = mutation.headers.map { Array($0.raw) }
        baseVersion = mutation.baseVersion
        references = References(new.references)
    }

    /// Takes in that it is to have its way over a conflict.
    mutating func take(_ outcome: Outcome) {
        revision = outcome.revision
        resolution = outcome.resolution
        override = outcome.override
        error = outcome.error
    }

    /// The trace that belongs to its requests and to what is logged of them: the one of the push, else one of the
    /// mutation's id, so that all attempts are found together.
    public var trace: TraceContext { traceparent.flatMap(TraceContext.init(traceparent:)) ?? TraceContext(of: id) }
}
