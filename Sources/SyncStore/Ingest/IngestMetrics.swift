import Metrics
import SyncModel

/// Counts events by outcome.
///
/// One that waits is counted again when it is judged later.
struct IngestMetrics: Sendable {
    private let counters: [IngestResult: Counter] = Dictionary(
        uniqueKeysWithValues: IngestResult.allCases.map { result in
            (result, Counter(label: StoreMetrics.ingestEvents, dimensions: [("result", result.rawValue)]))
        }
    )

    func record(_ verdicts: [IngestVerdict], isRelease: Bool) {
        // an event that continues to wait was counted when it came
        for verdict in verdicts where !(isRelease && verdict.result == .parked) {
            counters[verdict.result]?.increment()
        }
    }
}
