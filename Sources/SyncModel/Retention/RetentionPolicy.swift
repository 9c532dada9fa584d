/// How long data is kept (product rule 15).
public struct RetentionPolicy: Sendable, Hashable {
    /// `SLUICE_RETENTION_SUCCEEDED_DAYS`: days that final payloads are kept.
    ///
    /// Payloads of final mutations; the days count from `synced_at` (seed 001, succeeded_entries_pruned_after_sync).
    public var payloadDays: Double
    /// `SLUICE_RETENTION_DAYS`: days that everything else that expires is kept.
    ///
    /// Seed 001, delete_after_30days.
    public var days: Double
    /// `SLUICE_RETENTION_AUDIT_DAYS`: days that acts of operators are kept.
    public var auditDays: Double

    /// Payloads expire no later than their records.
    public init(payloadDays: Double = 7, days: Double = 30, auditDays: Double = 365) {
        self.payloadDays = min(payloadDays, days)
        self.days = days
        self.auditDays = auditDays
    }

    public func cutoffs(at now: Timestamp) -> RetentionCutoffs {
        RetentionCutoffs(
            payloads: now.adding(seconds: -payloadDays * 86_400),
            everything: now.adding(seconds: -days * 86_400),
            audit: now.adding(seconds: -auditDays * 86_400),
            now: now
        )
    }
}
