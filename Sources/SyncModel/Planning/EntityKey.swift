/// Names an entity within an organization.
public struct EntityKey: Sendable, Hashable {
    /// Entity type.
    public let type: String
    /// Text of the server id.
    public let id: String

    /// Creates the key.
    public init(type: String, id: String) {
        self.type = type
        self.id = id
    }
}
