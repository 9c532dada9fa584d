import Spans
import SyncModel
import Testing
import Tracing

@testable import TraceExport

@Suite struct OTLPTracerTests {
    private let queue = SpanQueue(metrics: CountedExport().metrics)

    private func tracer(_ sampler: String, _ ratio: Double = 1) throws -> OTLPTracer {
        OTLPTracer(try #require(TraceSampler(sampler, ratio: ratio)), to: queue)
    }

    private func context(_ trace: TraceContext?) -> ServiceContext {
        var context = ServiceContext.topLevel
        context.trace = trace
        return context
    }

    @Test func `a span without a parent begins a trace, and its children continue it`() throws {
        let tracer = try tracer("parentbased_always_on")
        let parent = tracer.startSpan("parent", context: .topLevel, ofKind: .server)
        let child = tracer.startSpan("child", context: parent.context)
        child.end()
        parent.end()
        let records = queue.takeBatch()
        #expect(records.map(\.name) == ["child", "parent"])
        #expect(records[1].parent == nil)
        #expect(records[0].parent == records[1].context)
        #expect(records[0].context.traceID == records[1].context.traceID)
        #expect(records[0].context.spanID != records[1].context.spanID)
        #expect(records.allSatisfy { $0.context.isSampled && $0.end >= $0.start })
    }

    @Test func `an unrecorded span passes its decision on and is not exported`() throws {
        let tracer = try tracer("parentbased_traceidratio", 0)
        let parent = tracer.startSpan("parent", context: .topLevel)
        let child = tracer.startSpan("child", context: parent.context)
        #expect(!parent.isRecording && !child.isRecording)
        #expect(child.context.trace?.traceID == parent.context.trace?.traceID)
        #expect(child.context.trace?.isSampled == false)
        child.attributes["a"] = "b"
        #expect(child.attributes.count == 0)
        child.end()
        parent.end()
        #expect(queue.count == 0)
    }

    @Test func `a span ends once and then no longer changes`() throws {
        let span = try tracer("always_on").startSpan("push", context: .topLevel)
        #expect(span.isRecording)
        span.attributes["a"] = "b"
        span.end()
        #expect(!span.isRecording)
        span.operationName = "late"
        span.attributes["c"] = "d"
        span.end()
        let records = queue.takeBatch()
        #expect(records.map(\.name) == ["push"])
        #expect(records.first?.attributes.count == 1)
    }

    @Test func `links are bounded`() throws {
        let span = try tracer("always_on").startSpan("commit", context: .topLevel)
        for _ in 0..<200 { span.addLink(SpanLink(context: context(TraceContext(sampled: true)), attributes: [:])) }
        // a context without a span
        span.addLink(SpanLink(context: .topLevel, attributes: [:]))
        span.end()
        let record = try #require(queue.takeBatch().first)
        #expect(record.links.count == ExportedSpan.maximumLinks && record.droppedLinks == 72)
    }

    @Test func `errors are recorded by their type, without their text`() throws {
        struct Failure: Error { let text: String }
        let span = try tracer("always_on").startSpan("push", context: .topLevel)
        span.recordError(Failure(text: "hush"))
        span.end()
        let record = try #require(queue.takeBatch().first)
        #expect(record.attributes.get("error.type") == .string("Failure"))
    }

    @Test func `reads and writes traceparent`() throws {
        let tracer = try tracer("always_on")
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        var found = ServiceContext.topLevel
        tracer.extract(["traceparent": text], into: &found, using: Carrier())
        #expect(found.trace == TraceContext(traceparent: text))
        var headers: [String: String] = [:]
        tracer.inject(found, into: &headers, using: Carrier())
        #expect(headers == ["traceparent": text])
        tracer.extract(["traceparent": "nonsense"], into: &found, using: Carrier())
        #expect(found.trace == nil)
        tracer.inject(found, into: &headers, using: Carrier())
        #expect(headers == ["traceparent": text], "nothing was written")
    }

    private struct Carrier: Extractor, Injector {
        func extract(key: String, from carrier: [String: String]) -> String? { carrier[key] }
        func inject(_ value: String, forKey key: String, into carrier: inout [String: String]) { carrier[key] = value }
    }
}
