/// Names of the feature's counters.
package enum UserMetrics {
    /// Users that were merged into others.
    package static let joinedUsers = "sluice_users_joined_total"
    /// Users that were erased.
    package static let erasedUsers = "sluice_users_erased_total"
    /// Failed attempts to report an erasure to an upstream.
    package static let unpublishedErasures = "sluice_erasures_untold_total"
}
