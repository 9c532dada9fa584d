public import FoundationEssentials
import JSONText

/// A stored mutation, with the content and the data about attempts that the lane's worker needs.
public struct QueuedMutation: EntityWrite, Sendable {
    public let id: UUID
    public let deviceID: UUID
    public let position: Int64
    public let acceptedAt: Timestamp
    public let operation: Operation
    /// The entity, with its permanent id if the id is known.
    public let entity: EntityName
    /// The endpoint to which the mutation is replayed; nil for a mutation without an endpoint.
    public var endpoint: Endpoint?
    /// The body as the client wrote it.
    public var payload: [UInt8]?
    /// The mutation's headers, as a JSON object of strings.
    public var headers: [UInt8]?
    /// The version of the entity on which the client based the mutation.
    public var baseVersion: Int64?
    /// The user's client ids in the endpoint and the payload.
    ///
    /// If this mutation does not create the entity, the entity's own client id is included.
    public var references = References()
    /// The revision, which starts at 1 and increases with each new upstream idempotency key.
    ///
    /// A mutation gets a new key each time another request is sent for it.
    public var revision: Int32 = 1
    public var attemptCount: Int16 = 0
    /// The number of requests after which the mutation fails.
    public let maxAttempts: Int16
    /// When the next attempt is due; nil if it is due immediately.
    public var nextRetryAt: Timestamp?
    /// Whether the next request is an attempt after a back-off.
    public var isRetried: Bool { attemptCount > 0 && nextRetryAt != nil }
    public let conflictResolution: ConflictResolution
    /// The resolution, if a strategy or a person settled a conflict in this revision.
    public var resolution: ConflictResolution?
    /// Whether the last request of this revision may have taken effect although no answer arrived.
    public var isOutcomeUnknown = false
    /// The number of consecutive 409s that may mean that the upstream still processes an earlier attempt.
    public var conflictRetries: Int16 = 0
    /// The state of a held mutation. Not nil while the operator's configuration may be the cause of the upstream's last
    /// answers.
    public var hold: AuthBackoff?
    /// The request that this revision sends to override a conflict.
    ///
    /// If nil, the revision sends the client's own request.
    public var override: SentRequest?
    /// The problem of a settled conflict, as JSON.
    public var error: [UInt8]?
    /// The W3C trace context of the push.
    public var traceparent: String?
    /// The user from whom the mutation's upstream idempotency keys are derived; nil for the lane's user.
    ///
    /// Not nil if the mutation belonged to a user who was joined into the lane's user.
    public var keyUser: UUID?
    /// The parts of the mutation that cannot be decrypted. A mutation with such parts cannot be sent.
    ///
    /// Usually empty.
    public var unreadable: [String] = []

    /// Creates a mutation that was never sent.
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

    /// Creates a queued mutation from a new mutation.
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

    /// Applies an outcome that overrides a conflict, and thereby begins a new revision.
    mutating func take(_ outcome: Outcome) {
        revision = outcome.revision
        resolution = outcome.resolution
        override = outcome.override
        error = outcome.error
    }

    /// The trace of the mutation's requests and log entries.
    ///
    /// This is the trace of the push. If the push had no trace, the trace is derived from the mutation's id. Therefore
    /// all attempts have the same trace.
    public var trace: TraceContext { traceparent.flatMap(TraceContext.init(traceparent:)) ?? TraceContext(of: id) }
}

/// A mutation that is committed as in flight, together with the data for its run.
///
/// A dispatch is returned only after the mutation's row was committed as in flight under the lane's lease.
///
/// The type is a class because a dispatch is passed between many functions and never changes.
public final class Dispatch: Sendable {
    public let lane: LaneKey
    /// The token of the lease under which the outcome must be written.
    public let token: Int64
    /// When the lease expires if the worker does not renew it.
    public let leasedUntil: Timestamp
    /// The mutation to run.
    ///
    /// Its `attemptCount` does not include the next request.
    public let mutation: QueuedMutation
    public let type: EntityType
    /// The entity's permanent id; nil for a create if the id is not known yet.
    public let serverID: ServerID?
    /// The entity's version in the feed when the mutation's turn came.
    ///
    /// Nil if the feed does not contain the entity, or if the user must not learn that the entity exists.
    public let entityVersion: Int64?
    /// The organization as it was when the mutation's turn came.
    public let organization: Organization
    public let destination: Destination

    public enum Destination: Sendable {
        /// The built-in store, within the transaction that writes the outcome.
        ///
        /// The payload already has server ids in place of client ids.
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

    /// The number of requests, including this request. If this request fails, the number becomes the attempt count.
    public var attempts: Int16 { mutation.attemptCount + 1 }

    /// Whether a request that is sent at this time would time out before the lease expires.
    ///
    /// This check is necessary because the process may have been suspended since the lease was read (product rule 13).
    public func canBeSent(at now: Timestamp) -> Bool {
        guard case .upstream(let request, _) = destination else { return true }
        return now.adding(seconds: request.timeout / .seconds(1)) < leasedUntil
    }

    /// The mutation's writer, for comparison with the last writer of an entity.
    public var writer: Writer { Writer(user: lane.user, device: mutation.deviceID) }
}
