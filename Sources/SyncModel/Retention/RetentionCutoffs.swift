/// The age limits of a run, as moments.
public struct RetentionCutoffs: Sendable, Hashable {
    /// Final mutations that were synced before lose their payloads.
    public let payloads: Timestamp
    /// Everything else that was last touched before is deleted.
    public let everything: Timestamp
    /// Acts of operators before are deleted.
    public let audit: Timestamp
    /// The time of the run.
    public let now: Timestamp
}
