package import Metrics
import Synchronization

/// Ended spans that wait for the exporter. It is bounded: if the receiver is too slow, new spans are dropped.
///
/// Adding never waits.
package final class SpanQueue: Sendable {
    /// The maximum number of waiting spans: about 4 MB.
    package static let capacity = 4_096
    /// The maximum number of spans in a request.
    package static let batch = 512

    private let capacity: Int
    private let batch: Int
    private let spans = Mutex([SpanRecord]())
    private let metrics: TraceMetrics
    /// Yields a value when a batch is full, and at each ``tick()``. Supports one reader.
    let signals: AsyncStream<Void>
    private let signal: AsyncStream<Void>.Continuation

    package init(capacity: Int = SpanQueue.capacity, batch: Int = SpanQueue.batch, metrics: TraceMetrics) {
        self.capacity = capacity
        self.batch = batch
        self.metrics = metrics
        (signals, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    }

    /// The number of waiting spans.
    package var count: Int { spans.withLock { $0.count } }

    /// Adds a span, unless the queue is full.
    package func add(_ span: SpanRecord) {
        let count: Int? = spans.withLock { spans in
            guard spans.count < capacity else { return nil }
            spans.append(span)
            return spans.count
        }
        guard let count else { return metrics.drop(1, .queueFull) }
        if count == batch { signal.yield() }
    }

    /// Removes and returns the oldest spans, as many as fit into a request.
    func takeBatch() -> [SpanRecord] {
        spans.withLock { spans in
            let taken = Array(spans.prefix(batch))
            spans.removeFirst(taken.count)
            return taken
        }
    }

    func tick() { signal.yield() }

    func close() { signal.finish() }
}

/// The metrics of the export of spans.
package struct TraceMetrics: Sendable {
    package static let exported = "sluice_traces_exported_total"
    package static let dropped = "sluice_traces_dropped_total"
    package static let failures = "sluice_traces_export_failures_total"

    /// The reason why spans are lost.
    package enum Loss: String, CaseIterable, Sendable {
        /// The receiver is too slow, or unavailable for too long.
        case queueFull = "queue_full"
        /// The receiver refused the spans.
        case refused
        /// The receiver was unavailable at the gateway's shutdown.
        case shutdown
    }

    private let exported: Counter
    private let failures: Counter
    private let losses: [Loss: Counter]

    package init(factory: any MetricsFactory = MetricsSystem.factory) {
        exported = Counter(label: Self.exported, dimensions: [], factory: factory)
        failures = Counter(label: Self.failures, dimensions: [], factory: factory)
        let losses = Loss.allCases.map { loss in
            (loss, Counter(label: Self.dropped, dimensions: [("reason", loss.rawValue)], factory: factory))
        }
        self.losses = Dictionary(uniqueKeysWithValues: losses)
    }

    func export(_ count: Int) { if count > 0 { exported.increment(by: count) } }

    func drop(_ count: Int, _ reason: Loss) { if count > 0 { losses[reason]?.increment(by: count) } }

    func failure() { failures.increment() }
}
