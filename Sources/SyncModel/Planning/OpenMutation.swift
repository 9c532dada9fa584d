public import Foundation

/// A mutation that is not final and writes an entity of the push.
public struct OpenMutation: Sendable {
    public let id: UUID
    /// The entity, under the names that are known.
    public let entity: EntityName
    /// Its place in the lane.
    public let position: Int64

    public init(id: UUID, entity: EntityName, position: Int64) {
        self.id = id
        self.entity = entity
        self.position = position
    }
}
