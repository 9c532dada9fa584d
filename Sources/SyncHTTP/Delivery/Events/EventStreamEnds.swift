import Metrics

/// Counts why streams of events ended.
struct EventStreamEnds: Sendable {
    private let counters: [EventStream.End: Counter]

    init() {
        let all: [EventStream.End] = [.closed, .expired, .refused, .slow, .failed]
        counters = Dictionary(
            uniqueKeysWithValues: all.map {
                ($0, Counter(label: HTTPMetrics.eventStreamEnds, dimensions: [("reason", $0.rawValue)]))
            }
        )
    }

    func count(_ end: EventStream.End) {
        counters[end]?.increment()
    }
}
