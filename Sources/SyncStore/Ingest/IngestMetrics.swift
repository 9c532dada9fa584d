import Metrics
import SyncModel

/// Counts events by what became of them. One that waits is counted again when its time has come.
struct IngestMetrics: Sendable {
    private let counters: [IngestResult: Counter] = Dictionary(
        uniqueKeysWithValues: IngestResult.allCases.map { result in
            (result, Counter(label: StoreMetrics.ingestEvents, dimensions: [("result", result.rawValue)]))
        }
    )

    func note(_ verdicts: [IngestVerdict], isRelease: Bool) {
        // what goes on waiting was counted when it came
        for verdict in verdicts where !(isRelease && verdict.result == .parked) {
            counters[verdict.result]?.increment()
        }
    }
}
