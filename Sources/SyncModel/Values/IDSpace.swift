/// Where the ids of an entity type come from; fixed from the type's first mutation or entity on.
public enum IDSpace: String, Sendable, Hashable, CaseIterable {
    /// A client UUID is mapped to a server id (seed 000).
    case mapped
    /// 64-bit ids that each device of a user counts for itself, and relations translated both ways (seed 002).
    case device
    /// Global ids, used as they are, without mapping rows (seed 002, "Shared Global IDs").
    case shared

    /// Whether what is created gets its permanent id from the server, and not from the client.
    public var isServerGiven: Bool { self != .shared }
}
