/// How long a migration waits for locks that others hold.
package struct MigratorPatience: Sendable {
    /// For one lock, with everybody else who wants the table in line behind; then the migration is undone.
    package var forLock: Duration
    /// Between a migration that was undone and the next try.
    package var pause: Duration
    /// How long one migration is tried.
    package var total: Duration

    package init(
        forLock: Duration = .seconds(1),
        pause: Duration = .seconds(2),
        total: Duration = .seconds(600)
    ) {
        self.forLock = forLock
        self.pause = pause
        self.total = total
    }
}
