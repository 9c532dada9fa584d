import Logging
import Postgres
package import SyncModel
import Synchronization

package struct StoreConfiguration: Sendable {
    /// A libpq URI.
    package var databaseURL: String
    /// A libpq URI of the server through which gateways notify each other of changes; nil for the server of
    /// `databaseURL`.
    ///
    /// The URI is required if gateways are connected to several servers of a Citus cluster.
    package var hintsURL: String?
    /// Whether committers in a Citus cluster commit each group over a direct connection to the server with the group's
    /// rows.
    package var commitsDirectly = false
    /// The number of connections for everything except group commit.
    package var poolSize: Int
    /// The number of committers for pushes. There are as many further committers for lane steps.
    ///
    /// Each committer has its own connection. One more connection serves heavy pushes, and one serves events.
    package var committers: Int
    /// The seconds for which a worker may hold a lane without renewing its lease.
    package var leaseSeconds: Double
    /// Wraps the organizations' data keys; nil if nothing is sealed.
    package var masterKeys: MasterKeys?
    /// The interval at which the gateway polls the lanes and feeds that requests wait for, while hints from other
    /// replicas arrive.
    ///
    /// The polls remain necessary because a hint can be lost.
    package var pollInterval: Duration = .seconds(15)
    /// The timeouts of PostgreSQL.
    package var timeouts = DatabaseTimeouts()
    /// The maximum number of devices of a user. Requests of further devices are refused.
    package var devicesPerUser = 1_000
    /// The storage periods of ingested events and sent requests.
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

/// The timeouts of PostgreSQL.
///
/// All are multiples of one value, because the right value differs between machines, and the timeouts must keep their
/// order.
package struct DatabaseTimeouts: Sendable {
    /// The timeout of one statement: 2.5 s by default.
    ///
    /// A push is answered within twice this time, which includes a margin and the time to cancel a statement. The
    /// default corresponds to the contract's limit of five seconds.
    package var statement: Duration

    /// The time for which a statement waits for a lock: 2 s by default.
    ///
    /// The value is less than the statement's timeout, and also limits the time to connect.
    package var lock: Duration

    /// - Parameter statement: the timeout of one statement.
    package init(statement: Duration = .milliseconds(2_500)) {
        self.statement = statement
        lock = statement * 4 / 5
    }

    /// The time after which a push is answered `store_unavailable` if it is still queued or waits for the database:
    /// 4.5 s by default.
    package var push: Duration { statement * 9 / 5 }
    /// The time for which a caller waits for a connection of the pool: 3 s by default.
    package var connection: Duration { statement * 6 / 5 }
    /// The time for which a transaction may be idle: 5 s by default.
    package var idleTransaction: Duration { statement * 2 }
    /// The time limit for all statements of one transaction that settles mutations, in total: 10 s by default.
    package var settlement: Duration { statement * 4 }
    /// The time after which the worker of a waiting lane step gets an error: 10 s by default.
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
