/// Metrics of what operators do, described where they are wired.
package enum MaintenanceMetrics {
    /// Users that were joined into others.
    package static let joinedUsers = "sluice_users_joined_total"
    /// Users that were erased.
    package static let erasedUsers = "sluice_users_erased_total"
    /// Attempts to tell an upstream of an erasure that were in vain.
    package static let untoldErasures = "sluice_erasures_untold_total"
    /// Acts of operators whose outcome could not be written to the audit.
    package static let unfinishedActs = "sluice_audit_unfinished_total"
}
