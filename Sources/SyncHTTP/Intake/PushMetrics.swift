import Metrics
package import SyncModel

/// Counts pushes and the results of their mutations.
package struct PushMetrics: Sendable {
    private let accepted = Counter(label: HTTPMetrics.pushes, dimensions: [("result", "accepted")])
    private let refused = Counter(label: HTTPMetrics.pushes, dimensions: [("result", "refused")])
    private let failed = Counter(label: HTTPMetrics.pushes, dimensions: [("result", "error")])
    private let size = Recorder(label: HTTPMetrics.pushMutations)
    private let fresh = Self.counters(replayed: false)
    private let replayed = Self.counters(replayed: true)

    package func record(_ answer: PushAnswer) {
        accepted.increment()
        size.record(answer.verdicts.count)
        for verdict in answer.verdicts {
            (verdict.isReplay ? replayed : fresh)[verdict.status]?.increment()
        }
    }

    package func record(_ error: any Error) {
        let isOurs = Refusal(of: error).problem.code.status >= 500
        (isOurs ? failed : refused).increment()
    }

    private static func counters(replayed: Bool) -> [MutationStatus: Counter] {
        Dictionary(
            uniqueKeysWithValues: MutationStatus.allCases.map { status in
                let dimensions = [("status", status.rawValue), ("replayed", replayed ? "true" : "false")]
                return (status, Counter(label: HTTPMetrics.mutations, dimensions: dimensions))
            }
        )
    }
}
