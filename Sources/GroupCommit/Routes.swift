package import Postgres

/// Where groups go whose rows lie on one of several servers: straight to that one, which spares the way by another.
package struct Routes: Sendable {
    /// The server that has a shard's rows, as far as is known.
    let server: @Sendable (Int) -> ServerAddress?
    /// Called when a server that answered before, or was not tried yet, cannot be reached.
    let onDetour: @Sendable (ServerAddress, PostgresError) -> Void

    package init(
        to server: @escaping @Sendable (Int) -> ServerAddress?,
        onDetour: @escaping @Sendable (ServerAddress, PostgresError) -> Void
    ) {
        self.server = server
        self.onDetour = onDetour
    }
}
