/// A mutation to discard.
public struct MutationDiscard: Sendable {
    /// The mutation before the change.
    public let node: DependencyNode
    /// `server_wins` where the server's entity is adopted in its place.
    ///
    /// Nil where a person discards it.
    public var resolution: ConflictResolution?
    /// The adopted entity's id; nil: unchanged.
    public var serverID: ServerID?
    /// The adopted entity's version; nil: unchanged.
    public var version: Int64?
    /// The problem object with the current entity, JSON; nil: unchanged.
    public var error: [UInt8]?
}
