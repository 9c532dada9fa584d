import Metrics

/// What group commit tells about itself.
struct CommitMetrics: Sendable {
    private let jobs: Recorder
    private let mutations: Recorder
    private let duration: Timer
    private let retries: String

    /// - Parameters:
    ///   - prefix: what the metrics' names begin with.
    ///   - jobs: what the members of a group are called.
    init(prefix: String, jobs: String) {
        self.jobs = Recorder(label: "\(prefix)_\(jobs)")
        mutations = Recorder(label: "\(prefix)_mutations")
        duration = Timer(label: "\(prefix)_duration_seconds")
        retries = "\(prefix)_retries_total"
    }

    func group(jobs: Int, mutations: Int, took: Duration) {
        self.jobs.record(jobs)
        self.mutations.record(mutations)
        let (seconds, attoseconds) = took.components
        duration.recordNanoseconds(seconds * 1_000_000_000 + attoseconds / 1_000_000_000)
    }

    func retry(_ reason: String) {
        Counter(label: retries, dimensions: [("reason", reason)]).increment()
    }
}
