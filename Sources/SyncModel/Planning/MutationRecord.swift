public import FoundationEssentials

/// A mutation's row without the mutation's content. The record has all other values that an answer contains.
///
/// The record is a class because it is passed often and never changes. A copy of the reference increments only one
/// reference count. A copy of a struct would increment a reference count for each member. The members of the record's
/// parts are available directly, such as `record.status`.
@dynamicMemberLookup
public final class MutationRecord: EntityWrite, Sendable {
    /// The members that the push determines.
    public struct Origin: Sendable {
        public let id: UUID
        public let idempotencyKey: UUID
        public let deviceID: UUID
        public let sequenceNumber: Int64
        /// The mutation's position in the lane.
        public let position: Int64
        public let operation: Operation
        public let acceptedAt: Timestamp

        public init(
            id: UUID,
            idempotencyKey: UUID,
            deviceID: UUID,
            sequenceNumber: Int64,
            position: Int64,
            operation: Operation,
            acceptedAt: Timestamp
        ) {
            self.id = id
            self.idempotencyKey = idempotencyKey
            self.deviceID = deviceID
            self.sequenceNumber = sequenceNumber
            self.position = position
            self.operation = operation
            self.acceptedAt = acceptedAt
        }
    }

    /// The progress of the mutation. The default values are the values of a new mutation.
    public struct State: Sendable {
        public var status: MutationStatus
        /// The revision, which starts at 1 and increases with each new upstream idempotency key.
        ///
        /// The mutation gets a new key each time it is sent as a new request.
        public var revision: Int32 = 1
        /// The entity's version after the mutation took effect.
        public var version: Int64?
        /// The upstream's ETag of the entity after the mutation took effect at the upstream.
        public var etag: String?
        /// The number of requests sent to an upstream so far; 0 for types in the built-in store.
        public var attemptCount: Int16 = 0
        /// When the next retry is due; nil if no retry is scheduled.
        public var nextRetryAt: Timestamp?
        /// The mutations for which this mutation waits.
        public var dependsOn: [UUID] = []
        /// The resolution, if a strategy or a person settled a conflict.
        public var resolution: ConflictResolution?
        /// When the mutation became final; nil until then.
        public var syncedAt: Timestamp?

        public init(_ status: MutationStatus) { self.status = status }
    }

    /// The upstream's response or, for a type in the built-in store, the values that replace it.
    public struct Response: Sendable {
        /// The HTTP status of the outcome.
        ///
        /// For a type in the built-in store, this is the status that a REST API would return.
        public var responseStatus: Int16?
        /// The upstream's answer as JSON.
        ///
        /// Nil for the built-in store, because its answers can be computed from the other members.
        public var responseBody: [UInt8]?
        /// A problem object as JSON.
        public var error: [UInt8]?
        /// The error as a sentence, for a mutation that waits for a person.
        public var lastError: String?

        public init() {}
    }

    /// The members that are null in the answer although their values are stored. Usually there is no such member.
    public struct Gaps: Sendable {
        /// The members that cannot be decrypted.
        public var unreadable: [String] = []
        /// The members that were not read because the size of the answer is limited.
        public var omitted: [String] = []
        /// Whether texts from the mutation's user and from the upstream are omitted, because the reader did not request
        /// them.
        public var isWithheld = false

        public init() {}
    }

    /// The parts of a record. A changed copy of the record can have other parts.
    public struct Parts: Sendable {
        public let origin: Origin
        /// The entity, with its permanent id if the id is known.
        public var entity: EntityName
        public var state: State
        public var response = Response()
        /// The hash with which the gateway recognizes a repeat.
        public let fingerprint: Fingerprint
        public var gaps = Gaps()

        public init(_ origin: Origin, entity: EntityName, _ state: State, fingerprint: Fingerprint) {
            self.origin = origin
            self.entity = entity
            self.state = state
            self.fingerprint = fingerprint
        }
    }

    public let parts: Parts

    public init(_ parts: Parts) { self.parts = parts }

    /// Creates the record of a new mutation.
    ///
    /// - Parameters:
    ///   - result: the mutation's result in the transaction that accepts it.
    ///   - dependsOn: the mutations for which the new mutation waits.
    convenience init(
        _ mutation: Mutation,
        deviceID: UUID,
        position: Int64,
        _ result: BuiltInStore.Result,
        dependsOn: [UUID],
        fingerprint: Fingerprint,
        acceptedAt: Timestamp
    ) {
        let origin = Origin(
            id: mutation.id,
            idempotencyKey: mutation.idempotencyKey,
            deviceID: deviceID,
            sequenceNumber: mutation.sequenceNumber,
            position: position,
            operation: mutation.operation,
            acceptedAt: acceptedAt
        )
        let (entity, state) = (mutation.entity.with(result.serverID), State(result.status))
        var parts = Parts(origin, entity: entity, state, fingerprint: fingerprint)
        parts.state.version = result.version
        parts.state.dependsOn = dependsOn
        parts.state.resolution = result.resolution
        parts.state.syncedAt = result.status.isFinal ? acceptedAt : nil
        parts.response.responseStatus = result.responseStatus
        parts.response.error = result.error
        parts.response.lastError = result.lastError
        self.init(parts)
    }

    public var operation: Operation { parts.origin.operation }
    public var entity: EntityName { parts.entity }
    public var fingerprint: Fingerprint { parts.fingerprint }

    @inlinable public subscript<Value>(dynamicMember member: KeyPath<Origin, Value>) -> Value {
        parts.origin[keyPath: member]
    }

    @inlinable public subscript<Value>(dynamicMember member: KeyPath<State, Value>) -> Value {
        parts.state[keyPath: member]
    }

    @inlinable public subscript<Value>(dynamicMember member: KeyPath<Response, Value>) -> Value {
        parts.response[keyPath: member]
    }

    @inlinable public subscript<Value>(dynamicMember member: KeyPath<Gaps, Value>) -> Value {
        parts.gaps[keyPath: member]
    }

    /// Whether a mutation that depends on this mutation may run.
    public var satisfiesDependants: Bool { parts.state.status.satisfiesDependants(settledBy: parts.state.resolution) }

    /// The size, in bytes, that the list of blocking mutations has in an answer.
    public var blockerBytes: Int {
        parts.state.status == .blocked ? parts.state.dependsOn.count * WorkBounds.listedID : 0
    }
}

// MARK: - Copies with a change

extension MutationRecord {
    func with(_ change: (inout Parts) -> Void) -> MutationRecord {
        var parts = parts
        change(&parts)
        return MutationRecord(parts)
    }

    /// A copy of the record with another error.
    public func showing(_ error: [UInt8]) -> MutationRecord { with { $0.response.error = error } }

    /// The record with the given members marked as not read.
    public func omitting(_ members: [String]) -> MutationRecord { with { $0.gaps.omitted = members } }

    /// A copy of the record in which a large error, a large upstream response and a long list of blocking mutations are
    /// omitted or shortened.
    public var withoutContents: MutationRecord {
        var copy = parts
        if blockerBytes > WorkBounds.small {
            copy.gaps.omitted.append("blocked_by")
            copy.state.dependsOn = Array(copy.state.dependsOn.prefix(WorkBounds.blockers))
        }
        if let long = copy.response.error, long.count > WorkBounds.small {
            copy.response.error = CurrentOutline(long) == nil ? nil : CurrentOutline.cut(long, place: nil)
            if copy.response.error == nil { copy.gaps.omitted.append("error") }
        }
        if let long = copy.response.responseBody, long.count > WorkBounds.small {
            copy.gaps.omitted.append("response")
            copy.response.responseBody = nil
        }
        return MutationRecord(copy)
    }

    /// A copy of the record without texts from the user and from the upstream.
    ///
    /// The copy lacks the body and the ETag of the response, the conflicting entity, and the address of a redirect.
    public var redacted: MutationRecord {
        with {
            $0.state.etag = nil
            $0.response.responseBody = nil
            $0.response.error = $0.response.error.flatMap(StoredProblem.redacted)
            $0.response.lastError = nil
            $0.gaps.isWithheld = true
        }
    }
}
