package import Logging
import ServiceLifecycle
import Spans
package import SyncModel
package import Tracing

/// Exports spans in the background, until graceful shutdown. The exporter must start before all services that record
/// spans, and end after them.
package final class TraceExporter: Service {
    /// The interval at which spans are sent. A full batch is sent without waiting for this interval.
    private static let interval: Duration = .seconds(1)
    /// The time limit for sending the last spans at shutdown.
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

    /// Installs the tracer of the process. This exporter sends the tracer's spans. Call this method once, before the
    /// first span.
    package func bootstrap(_ sampler: TraceSampler) {
        InstrumentationSystem.bootstrap(OTLPTracer(sampler, to: queue))
    }

    package func run() async throws {
        let (queue, sender) = (queue, sender)
        let export = SpanExport(queue, encoder: encoder, metrics: metrics, logger: logger, now: { .now }) {
            await sender.send($0, within: $1)
        }
        let clock = Task {
            while !Task.isCancelled {
                queue.tick()
                try? await Task.sleep(for: Self.interval)
            }
        }
        // a separate task, so that a graceful shutdown can cancel a request without cancelling the task of `run`
        let serving = Task {
            var export = export
            await export.serve()
            return export
        }
        var rest = await withTaskCancellationOrGracefulShutdownHandler {
            await serving.value
        } onCancelOrGracefulShutdown: {
            queue.close()
            serving.cancel()
        }
        clock.cancel()
        await rest.flush(within: Self.grace)
        await sender.shutdown()
    }
}

/// The tracer of the process. It decides which spans are recorded, and adds ended spans to the exporter's queue.
package struct OTLPTracer: Tracer {
    private let sampler: TraceSampler
    private let queue: SpanQueue

    package init(_ sampler: TraceSampler, to queue: SpanQueue) {
        self.sampler = sampler
        self.queue = queue
    }

    package func startSpan<Instant: TracerInstant>(
        _ operationName: String,
        context: @autoclosure () -> InstrumentationContext,
        ofKind kind: SpanKind,
        at instant: @autoclosure () -> Instant,
        function: String,
        file fileID: String,
        line: UInt
    ) -> ExportedSpan {
        var context = context()
        let parent = context.trace
        let trace = parent ?? TraceContext()
        let isRecorded = sampler.records(trace.traceID, under: parent)
        // most traces are not recorded and have no parent. Their span uses the span id of the new trace context, which
        // saves the generation of a second id.
        let position = isRecorded || parent != nil ? trace.child(sampled: isRecorded) : trace
        context.trace = position
        let record = SpanRecord(
            operationName,
            kind,
            at: position,
            under: parent,
            since: instant().nanosecondsSinceEpoch
        )
        return ExportedSpan(record, context: context, to: isRecorded ? queue : nil)
    }

    package func extract<Carrier, Extract: Extractor>(
        _ carrier: Carrier,
        into context: inout InstrumentationContext,
        using extractor: Extract
    ) where Extract.Carrier == Carrier {
        guard let text = extractor.extract(key: "traceparent", from: carrier) else { return }
        context.trace = TraceContext(traceparent: text)
    }

    package func inject<Carrier, Inject: Injector>(
        _ context: InstrumentationContext,
        into carrier: inout Carrier,
        using injector: Inject
    ) where Inject.Carrier == Carrier {
        guard let trace = context.trace else { return }
        injector.inject(trace.traceparent, forKey: "traceparent", into: &carrier)
    }

    /// Does nothing, because the exporter sends the last spans at shutdown.
    package func forceFlush() {}
}

/// Decides whether a trace is recorded, by the rules of OpenTelemetry's samplers.
///
/// If a sampler decides by ratio, the decision depends only on the trace id. As a result, all gateways and all other
/// programs with the same rule record the same traces.
package struct TraceSampler: Sendable, Equatable {
    /// The random part of a trace id (W3C Trace Context, level 2).
    private static let randomBits = 56
    private static let mask: UInt64 = 1 << randomBits - 1

    /// Whether a span with a parent is recorded if and only if the parent is recorded.
    private let followsParents: Bool
    /// A trace is recorded if the random part of its id is at least this number. If the threshold is above ``mask``, no
    /// trace is recorded.
    private let threshold: UInt64

    /// - Parameters:
    ///   - name: a value of `OTEL_TRACES_SAMPLER`.
    ///   - ratio: the share of traces that a sampler by ratio records, from 0 to 1.
    package init?(_ name: String, ratio: Double) {
        let share: Double
        switch name {
        case "always_on", "parentbased_always_on": share = 1
        case "always_off", "parentbased_always_off": share = 0
        case "traceidratio", "parentbased_traceidratio": share = min(1, max(0, ratio))
        default: return nil
        }
        followsParents = name.hasPrefix("parentbased_")
        threshold = UInt64(((1 - share) * Double(Self.mask + 1)).rounded())
    }

    /// Returns whether a span is recorded.
    package func records(_ traceID: UInt128, under parent: TraceContext?) -> Bool {
        if followsParents, let parent { return parent.isSampled }
        return UInt64(truncatingIfNeeded: traceID) & Self.mask >= threshold
    }
}
