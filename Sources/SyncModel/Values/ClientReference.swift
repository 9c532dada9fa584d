public import Foundation

/// A client id in the type in which it was created: other types may share the id.
public struct ClientReference: Sendable, Hashable {
    /// The client id, or the UUID that represents a device id.
    public let clientID: UUID
    @Exact public private(set) var entityType: String

    public init(clientID: UUID, entityType: String) {
        self.clientID = clientID
        self.entityType = entityType
    }
}
