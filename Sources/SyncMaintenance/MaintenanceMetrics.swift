/// Metrics of what operators do, described where they are wired.
package enum MaintenanceMetrics {
    /// Users that were joined into others.
    package static let joinedUsers = "sluice_users_joined_total"
}
