/// A mutation that is given up.
public struct MutationDiscard: Sendable {
    /// The mutation as it stood.
    public let node: DependencyNode
    /// `server_wins` where the server's entity was adopted in its place; nil where a person gave it up.
    public var resolution: ConflictResolution?
    /// The adopted entity's id; nil: as it was.
    public var serverID: ServerID?
    /// The adopted entity's version; nil: as it was.
    public var version: Int64?
    /// The problem object with what stands in its place, JSON; nil: as it was.
    public var error: [UInt8]?
}
