/// How long a migration waits for locks of other sessions.
public struct MigratorPatience: Sendable {
    /// For one lock, with all others that want the table queued behind; then the migration is undone.
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
