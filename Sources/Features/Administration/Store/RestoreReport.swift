/// The corrections to a database that was restored from a backup.
package struct RestoreReport: Sendable {
    /// Organizations whose older cursors are refused with `cursor_expired` from here on.
    package let feeds: Int
    /// Lanes that a worker held when the backup was made; other workers take them immediately.
    package let lanes: Int
    /// Whether retention was running when the backup was made.
    package let hadRetention: Bool
    /// Users who were erased since the backup was made, and are erased again.
    package let erasures: Int
}
