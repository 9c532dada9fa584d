/// For how long what is done is kept (product rule 15).
public struct RetentionPolicy: Sendable, Hashable {
    /// `SLUICE_RETENTION_SUCCEEDED_DAYS`: payloads of final mutations are kept for so many days behind `synced_at`
    /// (seed 001, succeeded_entries_pruned_after_sync).
    public var payloadDays: Double
    /// `SLUICE_RETENTION_DAYS`: everything else that goes is kept for so many days (seed 001, delete_after_30days).
    public var days: Double

    /// Creates the policy; payloads go no later than their records.
    public init(payloadDays: Double = 7, days: Double = 30) {
        self.payloadDays = min(payloadDays, days)
        self.days = days
    }

    /// The moments before which things are old.
    public func cutoffs(at now: Timestamp) -> RetentionCutoffs {
        RetentionCutoffs(
            payloads: now.adding(seconds: -payloadDays * 86_400),
            everything: now.adding(seconds: -days * 86_400),
            now: now
        )
    }
}
