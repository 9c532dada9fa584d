/// Names an entity within an organization.
public struct EntityKey: Sendable, Hashable {
    public let type: String
    /// The text of the server id.
    public let id: String

    public init(type: String, id: String) {
        self.type = type
        self.id = id
    }
}
