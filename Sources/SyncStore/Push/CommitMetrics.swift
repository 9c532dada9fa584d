import Metrics

/// What group commit tells about itself.
struct CommitMetrics: Sendable {
    private let pushes = Recorder(label: "sluice_commit_group_pushes")
    private let mutations = Recorder(label: "sluice_commit_group_mutations")
    private let duration = Timer(label: "sluice_commit_group_duration_seconds")

    func group(pushes: Int, mutations: Int, took: Duration) {
        self.pushes.record(pushes)
        self.mutations.record(mutations)
        let (seconds, attoseconds) = took.components
        duration.recordNanoseconds(seconds * 1_000_000_000 + attoseconds / 1_000_000_000)
    }

    func retry(_ reason: String) {
        Counter(label: "sluice_commit_group_retries_total", dimensions: [("reason", reason)]).increment()
    }
}
