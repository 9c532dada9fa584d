/// For how long what is done is kept (product rule 15).
package struct RetentionPolicy: Sendable, Hashable {
    /// `SLUICE_RETENTION_SUCCEEDED_DAYS`: payloads of final mutations are kept for so many days behind `synced_at`
    /// (seed 001, succeeded_entries_pruned_after_sync).
    package var payloadDays: Double
    /// `SLUICE_RETENTION_DAYS`: everything else that goes is kept for so many days (seed 001, delete_after_30days).
    package var days: Double

    /// Creates the policy; payloads go no later than their records.
    package init(payloadDays: Double = 7, days: Double = 30) {
        self.payloadDays = min(payloadDays, days)
        self.days = days
    }

    /// The moments before which things are old.
    package func cutoffs(at now: Timestamp) -> RetentionCutoffs {
        RetentionCutoffs(
            payloads: now.adding(seconds: -payloadDays * 86_400),
            everything: now.adding(seconds: -days * 86_400),
            now: now
        )
    }
}

/// The moments before which things are old, as of a run.
package struct RetentionCutoffs: Sendable, Hashable {
    /// Final mutations that were synced before lose their payloads.
    package let payloads: Timestamp
    /// What was last touched before goes.
    package let everything: Timestamp
    /// When that was.
    package let now: Timestamp
}
