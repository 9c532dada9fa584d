/// What has been set right in a database that was restored from a backup.
package struct RestoreReport: Sendable {
    /// Organizations whose cursors from before are answered `cursor_expired` now.
    package let feeds: Int
    /// Lanes that a worker had when the backup was made; others take them at once.
    package let lanes: Int
    /// Whether retention was running when the backup was made.
    package let hadRetention: Bool
}
