import Logging
import Metrics

package enum StoreMetrics {
    /// Sealed values that could not be opened when their rows were read.
    package static let unreadableValues = "sluice_unreadable_values_total"
    /// Events from elsewhere by `result`, see `IngestResult`.
    package static let ingestEvents = "sluice_ingest_events_total"
    /// Acts of operators whose outcome could not be written to the audit log.
    package static let unfinishedActs = "sluice_audit_unfinished_total"
    /// Requests to upstreams, by `outcome`.
    ///
    /// Counted by the dispatcher, read by operators' views.
    package static let upstreamAttempts = "sluice_upstream_attempts_total"
    /// Look-ups of subjects and of organizations' names in the database.
    ///
    /// With `outcome`: `found`, `made` (a new user) or `unknown`.
    package static let identityLookups = "sluice_identity_lookups_total"
}
