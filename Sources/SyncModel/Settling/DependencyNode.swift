public import Foundation

/// An open mutation, as far as what depends on what is concerned.
public struct DependencyNode: EntityWrite, Sendable {
    /// The mutation's id.
    public let id: UUID
    /// Place in the lane.
    public let position: Int64
    /// When it was accepted.
    public let acceptedAt: Timestamp
    /// Where it stands.
    public let status: MutationStatus
    /// What it does to its entity.
    public let operation: Operation
    /// The entity that it writes.
    public let entity: EntityName
    /// Mutations that had to succeed first; some may have by now.
    public let dependsOn: [UUID]

    /// Creates the value.
    public init(
        id: UUID,
        position: Int64,
        acceptedAt: Timestamp,
        status: MutationStatus,
        operation: Operation,
        entity: EntityName,
        dependsOn: [UUID]
    ) {
        self.id = id
        self.position = position
        self.acceptedAt = acceptedAt
        self.status = status
        self.operation = operation
        self.entity = entity
        self.dependsOn = dependsOn
    }

    init(_ record: MutationRecord) {
        self.init(
            id: record.id,
            position: record.position,
            acceptedAt: record.acceptedAt,
            status: record.status,
            operation: record.operation,
            entity: record.entity,
            dependsOn: record.dependsOn
        )
    }
}
