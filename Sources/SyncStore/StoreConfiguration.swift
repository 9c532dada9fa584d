import Logging
import Postgres
package import SyncModel
import Synchronization

package struct StoreConfiguration: Sendable {
    /// A libpq URI.
    package var databaseURL: String
    /// A libpq URI of the one server by which gateways notify each other of changes.
    ///
    /// Needed if they are connected to several servers of a cluster; nil for `databaseURL`.
    package var hintsURL: String?
    /// Whether groups on a cluster are committed over direct connections.
    ///
    /// These lead to the servers that have their rows.
    package var commitsDirectly = false
    /// Connections for everything but group commit.
    package var poolSize: Int
    /// The number of push committers; the same number serves lane steps.
    ///
    /// Each has its own connection. One more connection serves heavy pushes, and one serves events.
    package var committers: Int
    /// How long a worker may hold a lane without a sign of life, in seconds.
    package var leaseSeconds: Double
    /// Wraps the organizations' data keys; nil where nothing is sealed.
    package var masterKeys: MasterKeys?
    /// How often subscribed data is read anyway while other replicas' hints arrive.
    ///
    /// A hint may be lost.
    package var pollInterval: Duration = .seconds(15)
    /// How long to wait for Postgres.
    package var timeouts = DatabaseTimeouts()
    /// The maximum number of a user's devices. Every request of a further device is refused.
    package var devicesPerUser = 1_000
    /// How long taken events and sent requests are remembered.
    package var retention = RetentionPolicy()
    /// Features that add rows to the engine's transactions.
    package var participants: [any CommitParticipant] = []
    /// The schema's tables: the engine's, and those of all features.
    package var tables = StoredTable.engine

    package init(databaseURL: String, poolSize: Int = 8, committers: Int = 2, leaseSeconds: Double = 120) {
        self.databaseURL = databaseURL
        self.poolSize = poolSize
        self.committers = committers
        self.leaseSeconds = leaseSeconds
    }
}

/// How long the gateway waits for Postgres. All limits are in proportion to one number: the right value differs
/// between machines, and a limit below another one would make that one meaningless.
package struct DatabaseTimeouts: Sendable {
    /// How long one statement may take. With the margin and the grace of a cancellation a push is then answered within
    /// twice this time, the five seconds of the contract by default.
    package var statement: Duration

    /// How long a statement waits for a lock: 2 s by default.
    ///
    /// It is less than its total time, and also limits connecting.
    package var lock: Duration

    /// - Parameter statement: how long one statement may take.
    package init(statement: Duration = .milliseconds(2_500)) {
        self.statement = statement
        lock = statement * 4 / 5
    }

    /// How long a push may wait before it is answered `store_unavailable`.
    ///
    /// Queued or for the database: 4.5 s by default.
    package var push: Duration { statement * 9 / 5 }
    /// How long a caller waits for a connection of the pool: 3 s by default.
    package var connection: Duration { statement * 6 / 5 }
    /// How long a transaction may stay idle: 5 s by default.
    package var idleTransaction: Duration { statement * 2 }
    /// How long all statements of one write of a settlement may take: 10 s by default.
    package var settlement: Duration { statement * 4 }
    /// How long a lane's step may wait until its worker gets an error: 10 s by default.
    package var laneStep: Duration { statement * 4 }
}

/// Runs work with a time limit; unfinished work is cancelled.
///
/// - Throws: the errors of the work; `timedOut`.
func within<Value: Sendable>(
    _ limit: Duration,
    _ work: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    try await withThrowingTaskGroup(of: Value?.self) { group in
        group.addTask { try await work() }
        group.addTask {
            try await Task.sleep(for: limit)
            return nil
        }
        defer { group.cancelAll() }
        guard let value = try await group.next() ?? nil else {
            throw PostgresError(.timedOut, "the request took longer than \(limit)")
        }
        return value
    }
}
