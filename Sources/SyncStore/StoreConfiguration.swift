import Logging
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
    /// Each has its own connection. One more connection serves heavy pushes and one serves events from elsewhere.
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
    /// Devices that a user may have; every request of one more is refused.
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
