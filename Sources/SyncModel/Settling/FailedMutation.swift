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
