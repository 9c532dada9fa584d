package import SyncStore

extension Store {
    /// Joins users.
    package var joining: UserJoining { UserJoining(self) }

    /// Erases users.
    package var erasing: UserErasing { UserErasing(self) }

    /// Exports all stored data of a user.
    package var exports: UserExport { UserExport(self) }
}

/// Names of the feature's counters.
package enum UserMetrics {
    /// Users that were merged into others.
    package static let joinedUsers = "sluice_users_joined_total"
    /// Users that were erased.
    package static let erasedUsers = "sluice_users_erased_total"
    /// Failed attempts to report an erasure to an upstream.
    package static let unpublishedErasures = "sluice_erasures_untold_total"
}
