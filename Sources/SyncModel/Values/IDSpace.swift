/// The origin of an entity type's ids.
///
/// Fixed from the type's first mutation or entity on.
public enum IDSpace: String, Sendable, Hashable, CaseIterable {
    /// A client UUID is mapped to a server id (seed 000).
    case mapped
    /// Each device of a user counts its own 64-bit ids.
    ///
    /// The gateway translates relations both ways (seed 002).
    case device
    /// Global ids, used as they are, without mapping rows.
    ///
    /// Seed 002, "Shared Global IDs".
    case shared

    /// Whether the server, not the client, gives a created entity its permanent id.
    public var isServerGiven: Bool { self != .shared }
}
