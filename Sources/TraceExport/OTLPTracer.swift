import Spans
import SyncModel
package import Tracing

/// The tracer of the process: decides what is recorded, and passes ended spans to the exporter's queue.
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
        // an unrecorded trace without a parent needs no other id, and most traces are like that
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

    /// Does nothing: the exporter sends the last spans at shutdown.
    package func forceFlush() {}
}
