import Foundation
import SyncModel
import Testing

@Suite("Trace context")
struct TraceContextTests {
    static let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    static let span = "00f067aa0ba902b7"

    @Test
    func `A header is parsed and written back`() throws {
        let text = "00-\(Self.trace)-\(Self.span)-01"
        let context = try #require(TraceContext(traceparent: text))
        #expect(context.traceparent == text)
        #expect(context.traceIDText == Self.trace)
        #expect(context.spanID == 0x00f0_67aa_0ba9_02b7)
        #expect(context.isSampled)
    }

    @Test
    func `Unknown flags are accepted and not passed on`() throws {
        let context = try #require(TraceContext(traceparent: "00-\(Self.trace)-\(Self.span)-fe"))
        #expect(!context.isSampled)
        #expect(context.traceparent.hasSuffix("-00"))
    }

    @Test(arguments: ["", "-", "-future.stuff"])
    func `Higher versions are parsed as version 00`(rest: String) throws {
        let context = try #require(TraceContext(traceparent: "cc-\(Self.trace)-\(Self.span)-01" + rest))
        #expect(context.traceparent == "00-\(Self.trace)-\(Self.span)-01")
    }

    @Test(arguments: [
        "", "00", "00-\(trace)-\(span)", "00-\(trace)-\(span)-1", "00-\(trace)-\(span)-01-",
        "00-\(trace)-\(span)-011",
        "ff-\(trace)-\(span)-01", "cc-\(trace)-\(span)-01x", "0g-\(trace)-\(span)-01", "00-\(trace)-\(span)-0G",
        "00-00000000000000000000000000000000-\(span)-01", "00-\(trace)-0000000000000000-01",
        "00-\(trace.uppercased())-\(span)-01", "00_\(trace)_\(span)_01", " 00-\(trace)-\(span)-01",
        "00-\(trace)-\(span)-01 ", "00-4bf92f3577b34da6a3ce929d0e0e473é-\(span)-01",
    ]
    )
    func `Forbidden forms of the specification are refused`(text: String) {
        #expect(TraceContext(traceparent: text) == nil)
    }

    @Test
    func `An untraced request has a stable trace derived from its id`() throws {
        let id = try #require(UUID(uuidString: "019BB000-001D-7000-8000-00000000ABCD"))
        let context = TraceContext(of: id)
        #expect(context.traceIDText == "019bb000001d7000800000000000abcd")
        #expect(context == TraceContext(of: id))
        #expect(!context.isSampled)
        #expect(TraceContext(traceparent: context.traceparent) == context)
        let zero = TraceContext(of: UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)))
        #expect(TraceContext(traceparent: zero.traceparent) == zero)
    }

    @Test
    func `A child shares the trace and has its own span`() {
        let root = TraceContext(sampled: true)
        let child = root.child()
        #expect(child.traceID == root.traceID)
        #expect(child.spanID != root.spanID)
        #expect(child.isSampled)
        #expect(TraceContext(traceparent: child.traceparent) == child)
        #expect(TraceContext().traceID != root.traceID)
    }
}
