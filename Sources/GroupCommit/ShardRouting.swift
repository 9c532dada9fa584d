package import Postgres

/// Where groups are sent if their rows are on one of several servers.
///
/// Directly to that one, which saves the way through another.
package struct ShardRouting: Sendable {
    /// The server that has a shard's rows, if known.
    let server: @Sendable (Int) -> ServerAddress?
    /// Called when a server cannot be reached.
    ///
    /// It answered before, or was not tried yet.
    let onFallback: @Sendable (ServerAddress, PostgresError) -> Void

    package init(
        to server: @escaping @Sendable (Int) -> ServerAddress?,
        onFallback: @escaping @Sendable (ServerAddress, PostgresError) -> Void
    ) {
        self.server = server
        self.onFallback = onFallback
    }
}
