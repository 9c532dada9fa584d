package import Logging
import ServiceLifecycle
import Tracing

/// Exports spans in the background, until graceful shutdown. It has to start before, and end after, all services that
/// record spans.
package final class TraceExporter: Service {
    /// The interval at which spans are sent, unless a batch is full earlier.
    private static let interval: Duration = .seconds(1)
    /// The time for the last spans at shutdown.
    private static let grace: Duration = .seconds(2)

    package let queue: SpanQueue
    private let encoder: OTLPEncoder
    private let metrics: TraceMetrics
    private let sender: OTLPSender
    private let logger: Logger

    package init(to sender: OTLPSender, encoder: OTLPEncoder, logger: Logger) {
        self.sender = sender
        self.encoder = encoder
        self.logger = logger
        metrics = TraceMetrics()
        queue = SpanQueue(metrics: metrics)
    }

    /// Makes the process record spans, and this exporter send them. To be called once, before the first span.
    package func bootstrap(_ sampler: TraceSampler) {
        InstrumentationSystem.bootstrap(OTLPTracer(sampler, to: queue))
    }

    package func run() async throws {
        let (queue, sender) = (queue, sender)
        var export = SpanExport(queue, encoder: encoder, metrics: metrics, logger: logger, now: { .now }) {
            await sender.send($0, within: $1)
        }
        await withTaskCancellationOrGracefulShutdownHandler {
            let clock = Task {
                while !Task.isCancelled {
                    queue.tick()
                    try? await Task.sleep(for: Self.interval)
                }
            }
            for await _ in queue.signals { await export.run() }
            clock.cancel()
        } onCancelOrGracefulShutdown: {
            queue.close()
        }
        await export.flush(within: Self.grace)
        await sender.shutdown()
    }
}
