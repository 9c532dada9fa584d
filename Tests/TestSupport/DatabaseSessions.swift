package import Glibc
package import Postgres

/// The activity of a database's sessions in Postgres.
///
/// On a cluster it queries every server, because a statement waits on the server of its rows. The coordinator has a
/// session on that server that waits for a lock, while the coordinator's own session only waits for an answer.
package struct DatabaseSessions: Sendable {
    /// The connection to the server that gateways connect to, for the test's own statements.
    package let connection: Connection
    private let others: [Connection]

    package init(_ database: TestDatabase) async throws {
        connection = try await database.connect()
        var others: [Connection] = []
        for uri in database.uris.dropFirst() { others.append(try await database.connect(to: uri)) }
        self.others = others
    }

    private var servers: [Connection] { [connection] + others }

    private static let theirs = "datname = current_database() AND pid <> pg_backend_pid()"

    /// - Parameter event: a wait event's type or name, such as `Lock`.
    private static func waiting(for event: String) -> String {
        "\(theirs) AND '\(event)' IN (wait_event_type, wait_event)"
    }

    /// The number of sessions that wait for an event: a wait event's type or name, such as `Lock`.
    package func count(waitingFor event: String) async throws -> Int64 {
        let statement = Statement(
            "sessions_waiting_\(event)",
            "SELECT count(*) FROM pg_stat_activity WHERE \(Self.waiting(for: event))"
        )
        var count: Int64 = 0
        for server in servers { count += try await server.run(Query(statement)).read(0, 0, as: Int64.self) }
        return count
    }

    /// Waits until this many sessions wait for an event, or `isOver` returns that they never will.
    package func await(
        _ count: Int64,
        waitingFor event: String,
        unless isOver: @Sendable () -> Bool = { false }
    ) async throws {
        try await waitUntil("\(count) sessions wait for \(event)") {
            if isOver() { return true }
            return try await self.count(waitingFor: event) >= count
        }
    }

    /// Waits until the commit of a change to a table waits for a standby.
    ///
    /// It is recognized by its locks, which are held until then: other commits may wait, too, such as retention's,
    /// which a gateway polls when it starts and which a busy machine runs late.
    package func awaitCommit(to table: String) async throws {
        let statement = Statement(
            "sessions_committing_\(table)",
            """
            SELECT count(*) FROM pg_stat_activity JOIN pg_locks USING (pid)
            WHERE \(Self.waiting(for: "SyncRep")) AND relation = '\(table)'::regclass AND mode = 'RowExclusiveLock'
            """
        )
        try await waitUntil("a commit to \(table) waits for a standby") {
            try await connection.run(Query(statement)).read(0, 0, as: Int64.self) > 0
        }
    }

    /// The processes of all other sessions of the database, on the server that gateways connect to.
    package func processes() async throws -> [pid_t] {
        let statement = Statement("sessions_others", "SELECT pid FROM pg_stat_activity WHERE \(Self.theirs)")
        let rows = try await connection.run(Query(statement))
        return try (0..<rows.count).map { try rows.read($0, 0, as: Int32.self) }
    }

    /// Ends the sessions that wait for an event.
    package func terminate(waitingFor event: String) async throws {
        try await terminate(Self.waiting(for: event))
    }

    /// Ends all other sessions of the database.
    package func terminateOthers() async throws { try await terminate(Self.theirs) }

    private func terminate(_ which: String) async throws {
        for server in servers {
            try await server.execute(script: "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE \(which)")
        }
    }

    package func close() async {
        for server in servers { await server.closeAndWait() }
    }
}
