public import Foundation

/// A mutation that is not final and touches an entity of the push.
public struct OpenMutation: Sendable {
    /// The mutation's id.
    public let id: UUID
    /// The entity, as far as it was known.
    public let entity: EntityName
    /// Place in the lane.
    public let position: Int64

    /// Creates the value.
    public init(id: UUID, entity: EntityName, position: Int64) {
        self.id = id
        self.entity = entity
        self.position = position
    }
}
