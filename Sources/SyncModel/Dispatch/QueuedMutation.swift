public import FoundationEssentials
import JSONText

/// A stored mutation as the worker of its lane needs it.
///
/// It has its content, and the state of its attempts.
public struct QueuedMutation: EntityWrite, Sendable {
    public let id: UUID
    public let deviceID: UUID
    public let position: Int64
    public let acceptedAt: Timestamp
    public let operation: Operation
    /// The entity, with its permanent id if that is known.
    public let entity: EntityName
    /// Where to replay it; nil for built-in types that give none.
    public var endpoint: Endpoint?
    /// The body as the client wrote it.
    public var payload: [UInt8]?
    /// The mutation's headers, a JSON object of strings.
    public var headers: [UInt8]?
    /// The version that the client saw.
    public var baseVersion: Int64?
    /// The user's client ids in endpoint and payload.
    ///
    /// Includes the entity's own unless this mutation creates it.
    public var references = References()
    /// Starts at 1; raised with each new upstream idempotency key.
    ///
    /// That is each time the mutation is sent again as another request.
    public var revision: Int32 = 1
    public var attemptCount: Int16 = 0
    /// Requests that may be sent before it fails.
    public let maxAttempts: Int16
    /// When the next attempt is due; nil if it is due immediately.
    public var nextRetryAt: Timestamp?
    public let conflictResolution: ConflictResolution
    /// Set when a strategy or a person settled a conflict in this revision.
    public var resolution: ConflictResolution?
    /// Whether the last request of this revision may have taken effect unnoticed.
    public var isOutcomeUnknown = false
    /// Consecutive 409s that were taken for an echo of an earlier attempt.
    public var conflictRetries: Int16 = 0
    /// Set while the operator may be the cause of the upstream's last answers.
    public var hold: AuthBackoff?
    /// The request that this revision sends to override a conflict.
    ///
    /// Nil for the client's own.
    public var override: SentRequest?
    /// The problem of a settled conflict, JSON.
    public var error: [UInt8]?
    /// W3C trace context of the push.
    public var traceparent: String?
    /// The user for whom its idempotency keys are made; nil for the lane's user.
    ///
    /// Set if the mutation came with a user who was joined into the lane's.
    public var keyUser: UUID?
    /// Parts of the mutation that cannot be opened, so that it cannot be sent.
    ///
    /// Normally empty.
    public var unreadable: [String] = []

    /// A mutation that was never sent.
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

    /// A new mutation that will wait for its turn.
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

    /// Takes in the revision that overrides a conflict.
    mutating func take(_ outcome: Outcome) {
        revision = outcome.revision
        resolution = outcome.resolution
        override = outcome.override
        error = outcome.error
    }

    /// The trace of its requests and log entries.
    ///
    /// That of the push, else one made of the mutation's id, so that all attempts share it.
    public var trace: TraceContext { traceparent.flatMap(TraceContext.init(traceparent:)) ?? TraceContext(of: id) }
}

/// A mutation whose turn it is.
///
/// Its row is committed as in flight under the lane's lease before a dispatch is returned.
///
/// A class, since it is passed around a lot and never changes.
public final class Dispatch: Sendable {
    public let lane: LaneKey
    /// The lease under which its outcome must be written.
    public let token: Int64
    /// When that lease expires, unless the worker renews it.
    public let leasedUntil: Timestamp
    /// The mutation to run.
    ///
    /// Its `attemptCount` does not count the request about to be sent.
    public let mutation: QueuedMutation
    public let type: EntityType
    /// The entity's permanent id; nil for a create without one.
    public let serverID: ServerID?
    /// The entity's version in the feed when the turn came.
    ///
    /// Nil where the user may not know of the entity.
    public let entityVersion: Int64?
    /// The tenant as it was when the turn came.
    public let organization: Organization
    public let destination: Destination

    public enum Destination: Sendable {
        /// The built-in store, within the transaction that writes the outcome.
        ///
        /// The payload has server ids already.
        case builtIn(payload: [UInt8])
        /// The organization's API.
        case upstream(UpstreamRequest, UpstreamSettings)
    }

    init(
        of mutation: QueuedMutation,
        _ surroundings: DispatchPlanner.LaneContext,
        serverID: ServerID?,
        to destination: Destination
    ) {
        lane = surroundings.lane
        token = surroundings.token
        leasedUntil = surroundings.leasedUntil
        self.mutation = mutation
        type = surroundings.type
        self.serverID = serverID
        entityVersion = surroundings.visibleEntity?.version
        organization = surroundings.organization
        self.destination = destination
    }

    /// Requests sent once this one is: the count that a failure records.
    public var attempts: Int16 { mutation.attemptCount + 1 }

    /// Whether a request sent at that time ends before the lease does.
    ///
    /// The row was read earlier, and the process may have been suspended since (product rule 13).
    public func canBeSent(at now: Timestamp) -> Bool {
        guard case .upstream(let request, _) = destination else { return true }
        return now.adding(seconds: request.timeout / .seconds(1)) < leasedUntil
    }

    /// The writer, for runs of versions.
    public var writer: Writer { Writer(user: lane.user, device: mutation.deviceID) }
}
