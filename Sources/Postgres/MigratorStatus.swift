/// A database's state relative to the migrations of this build.
public struct MigratorStatus: Sendable, Equatable {
    public let applied: [String]
    public let pending: [String]
    /// Applied by a newer build, in order; unknown to this one.
    public let unknownNewer: [String]
}
