public import Foundation

/// An open mutation in the dependency graph.
public struct DependencyNode: EntityWrite, Sendable {
    public let id: UUID
    /// Its place in the lane.
    public let position: Int64
    public let acceptedAt: Timestamp
    public let status: MutationStatus
    public let operation: Operation
    public let entity: EntityName
    /// Mutations that had to succeed first; some may have succeeded.
    public let dependsOn: [UUID]

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
