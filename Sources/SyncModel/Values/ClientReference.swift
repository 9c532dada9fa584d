public import Foundation

/// A client id under the type in which it was created: others may share it.
public struct ClientReference: Sendable, Hashable {
    /// The client id, or what stands for a device's own.
    public let clientID: UUID
    /// The type.
    public let entityType: String

    /// Creates the value.
    public init(clientID: UUID, entityType: String) {
        self.clientID = clientID
        self.entityType = entityType
    }
}
