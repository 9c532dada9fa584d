import Metrics
import Postgres
import SyncModel

/// The metrics of group commit.
package struct CommitMetrics: Sendable {
    /// Why a group is tried again.
    enum Retry: String, CaseIterable {
        /// Data that the first read left out is needed after all.
        case readAgain = "read_again"
        /// Another replica has changed an organization's types.
        case staleTypes = "stale_types"
        /// Another replica has made a data key.
        case staleKeys = "stale_keys"
        /// Users' keys were not in memory.
        case userKeys = "user_keys"
        /// Another transaction was in the way.
        case contended
        /// The connection broke.
        case connection
        /// A job would change too much to be done together with others.
        case heavy
        /// The database refused the group; it is halved.
        case bisected
        /// A statement of the group took too long, or waited too long for a lock.
        case tooLong = "too_long"
    }

    private let jobs: Recorder
    private let mutations: Recorder
    private let statements: Recorder
    private let roundTrips: Recorder
    private let duration: Timer
    private let retries: [Retry: Counter]

    /// - Parameters:
    ///   - prefix: how the metrics' names begin.
    ///   - jobs: the noun for the members of a group.
    package init(prefix: String, jobs: String) {
        self.jobs = Recorder(label: "\(prefix)_\(jobs)")
        mutations = Recorder(label: "\(prefix)_mutations")
        statements = Recorder(label: "\(prefix)_statements")
        roundTrips = Recorder(label: "\(prefix)_round_trips")
        duration = Timer(label: "\(prefix)_duration_seconds")
        let retries = Retry.allCases.map { reason in
            (reason, Counter(label: "\(prefix)_retries_total", dimensions: [("reason", reason.rawValue)]))
        }
        self.retries = Dictionary(uniqueKeysWithValues: retries)
    }

    /// - Parameter traffic: all that the group took, retries and halves included.
    func group(jobs: Int, mutations: Int, traffic: Traffic, took: Duration) {
        self.jobs.record(jobs)
        self.mutations.record(mutations)
        statements.record(traffic.statements)
        roundTrips.record(traffic.roundTrips)
        duration.recordNanoseconds(took.nanoseconds)
    }

    func retry(_ reason: Retry) {
        retries[reason]?.increment()
    }
}
