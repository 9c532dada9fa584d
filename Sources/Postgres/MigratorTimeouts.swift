/// How long a migration waits for locks of other sessions.
public struct MigratorTimeouts: Sendable {
    /// The time to wait for one lock; then the migration is undone.
    ///
    /// All other sessions that need the table queue behind it.
    public var forLock: Duration
    /// Between a migration that was undone and the next try.
    public var pause: Duration
    /// How long one migration is tried.
    public var total: Duration

    public init(
        forLock: Duration = .seconds(1),
        pause: Duration = .seconds(2),
        total: Duration = .seconds(600)
    ) {
        self.forLock = forLock
        self.pause = pause
        self.total = total
    }
}
