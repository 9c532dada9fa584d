/// The moments before which things are old, as of a run.
public struct RetentionCutoffs: Sendable, Hashable {
    /// Final mutations that were synced before lose their payloads.
    public let payloads: Timestamp
    /// What was last touched before goes.
    public let everything: Timestamp
    /// When that was.
    public let now: Timestamp
}
