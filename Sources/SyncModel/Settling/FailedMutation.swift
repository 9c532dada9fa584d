public import Foundation

/// A mutation that waits for a person, as in lists over all users.
///
/// It lacks what its user wrote.
public struct FailedMutation: Sendable {
    public let lane: LaneKey
    public let id: UUID
    public let device: UUID
    public let operation: Operation
    public let entity: EntityName
    public let status: MutationStatus
    /// The code of its problem.
    public let errorCode: String
    /// The HTTP status of the response because of which it waits; 0: no response.
    public let responseStatus: Int16
    /// Its problem as a sentence; nil where that cannot be opened.
    public let detail: String?
    public let attemptCount: Int16
    public let acceptedAt: Timestamp
    /// Since when it waits for a person.
    public let stuckAt: Timestamp

    public init(
        lane: LaneKey,
        id: UUID,
        device: UUID,
        operation: Operation,
        entity: EntityName,
        status: MutationStatus,
        errorCode: String,
        responseStatus: Int16,
        detail: String?,
        attemptCount: Int16,
        acceptedAt: Timestamp,
        stuckAt: Timestamp
    ) {
        self.lane = lane
        self.id = id
        self.device = device
        self.operation = operation
        self.entity = entity
        self.status = status
        self.errorCode = errorCode
        self.responseStatus = responseStatus
        self.detail = detail
        self.attemptCount = attemptCount
        self.acceptedAt = acceptedAt
        self.stuckAt = stuckAt
    }
}

/// Mutations of an organization that wait for a person for the same reason.
public struct FailureGroup: Sendable {
    /// The common properties, in the order of paging through groups.
    public struct Key: Sendable, Hashable {
        @Exact public var entityType: String
        @Exact public var errorCode: String
        /// 0: there was no answer.
        public var responseStatus: Int16

        public init(entityType: String, errorCode: String, responseStatus: Int16) {
            self.entityType = entityType
            self.errorCode = errorCode
            self.responseStatus = responseStatus
        }

        /// Derived from `error_code`, which differs for the two statuses.
        public var status: MutationStatus { errorCode == ProblemCode.conflict.rawValue ? .conflict : .failed }
    }

    public let organization: UUID
    public let organizationName: String
    public let key: Key
    public let count: BoundedCount
    /// When the first and the last of them got stuck.
    public let firstAt: Timestamp
    public let lastAt: Timestamp
    /// The last one.
    public let user: UUID
    public let mutation: UUID
    /// Its problem as a sentence; nil where that cannot be opened.
    public var detail: String?

    public init(
        organization: UUID,
        organizationName: String,
        key: Key,
        count: BoundedCount,
        firstAt: Timestamp,
        lastAt: Timestamp,
        user: UUID,
        mutation: UUID
    ) {
        self.organization = organization
        self.organizationName = organizationName
        self.key = key
        self.count = count
        self.firstAt = firstAt
        self.lastAt = lastAt
        self.user = user
        self.mutation = mutation
    }
}
