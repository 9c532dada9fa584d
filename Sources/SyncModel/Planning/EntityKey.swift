/// Names an entity within an organization.
public struct EntityKey: Sendable, Hashable {
    @Exact public private(set) var type: String
    /// The text of the server id.
    @Exact public private(set) var id: String

    public init(type: String, id: String) {
        self.type = type
        self.id = id
    }
}
