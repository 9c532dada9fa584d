import Foundation
import Spans
import SyncModel
import TestSupport
import Testing
import Tracing

@testable import TraceExport

@Suite struct OTLPEncoderTests {
    private static let trace = "0af7651916cd43dd8448eb211c80319c"

    /// A server span with each kind of attribute, and a child with a link.
    private func spans() throws -> [SpanRecord] {
        let queue = SpanQueue(metrics: CountedExport().metrics)
        let client = try #require(TraceContext(traceparent: "00-\(Self.trace)-b7ad6b7169203331-01"))
        let server = try #require(TraceContext(traceparent: "00-\(Self.trace)-00000000000000a1-01"))
        let child = try #require(TraceContext(traceparent: "00-\(Self.trace)-00000000000000b2-01"))
        func span(_ name: String, _ kind: SpanKind, _ context: TraceContext, _ parent: TraceContext) -> ExportedSpan {
            let start: UInt64 = 1_795_852_063_065_478_466
            let record = SpanRecord(name, kind, at: context, under: parent, since: start)
            return ExportedSpan(record, context: .topLevel, to: queue)
        }
        let request = span("POST /v1/mutations", .server, server, client)
        request.attributes = [
            "http.route": .string("/v1/mutations"), "http.response.status_code": .int64(503),
            "sluice.organization.id": .string("0192f0c1"), "flag": .bool(true), "small": .int32(-7),
            "quoted": .string("a \"b\"\n"),
        ]
        request.setStatus(SpanStatus(code: .error, message: "may quote user content"))
        request.end(at: DefaultTracerClock.Timestamp(nanosecondsSinceEpoch: 1_795_852_063_075_478_466))
        let push = span("push", .internal, child, server)
        var context = ServiceContext.topLevel
        context.trace = server
        push.addLink(SpanLink(context: context, attributes: [:]))
        // a clock that was set back
        push.end(at: DefaultTracerClock.Timestamp(nanosecondsSinceEpoch: 5))
        return queue.takeBatch()
    }

    @Test func `writes OTLP's JSON`() throws {
        let expected = """
            {"resourceSpans":[{"resource":{"attributes":[\
            {"key":"service.name","value":{"stringValue":"sluice"}},\
            {"key":"service.version","value":{"stringValue":"1.2.3"}}]},\
            "scopeSpans":[{"scope":{"name":"sluice","version":"1.2.3"},"spans":[\
            {"traceId":"\(Self.trace)","spanId":"00000000000000a1","parentSpanId":"b7ad6b7169203331",\
            "flags":769,"name":"POST /v1/mutations","kind":2,\
            "startTimeUnixNano":"1795852063065478466","endTimeUnixNano":"1795852063075478466","attributes":[\
            {"key":"flag","value":{"boolValue":true}},\
            {"key":"http.response.status_code","value":{"intValue":"503"}},\
            {"key":"http.route","value":{"stringValue":"/v1/mutations"}},\
            {"key":"quoted","value":{"stringValue":"a \\"b\\"\\n"}},\
            {"key":"small","value":{"intValue":"-7"}}],"status":{"code":2}},\
            {"traceId":"\(Self.trace)","spanId":"00000000000000b2","parentSpanId":"00000000000000a1",\
            "flags":257,"name":"push","kind":1,\
            "startTimeUnixNano":"1795852063065478466","endTimeUnixNano":"1795852063065478466","attributes":[],\
            "links":[{"traceId":"\(Self.trace)","spanId":"00000000000000a1"}]}]}]}]}
            """
        #expect(String(decoding: encoder().request(try spans()), as: UTF8.self) == expected)
    }

    @Test func `names organizations only if it is configured to`() throws {
        let text = String(decoding: encoder(showsOrganizations: true).request(try spans()), as: UTF8.self)
        #expect(text.contains(#"{"key":"sluice.organization.id","value":{"stringValue":"0192f0c1"}}"#))
    }

    @Test func `cuts long texts between characters`() throws {
        let queue = SpanQueue(metrics: CountedExport().metrics)
        let name = "x" + String(repeating: "é", count: 200)
        let span = ExportedSpan(record(name), context: .topLevel, to: queue)
        span.end()
        let text = String(decoding: encoder().request(queue.takeBatch()), as: UTF8.self)
        #expect(text.contains(#""name":"x"# + String(repeating: "é", count: 127) + #"""#))
    }

    /// The classes of the package are generated from OTLP's own definition.
    @Test func `the classes of opentelemetry-proto decode it`() async throws {
        let program = try PythonProgram.command("receiver.py", in: "OpenTelemetry")
        let folder = FileManager.default.temporaryDirectory.appending(path: "otlp-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let (input, output) = (folder.appending(path: "input"), folder.appending(path: "output"))
        try Data(encoder().request(try spans())).write(to: input)
        let script = #"exec "$1" "$2" --decode <"$3" >"$4" 2>&1"#
        try await ChildProcess.run(["/bin/sh", "-c", script, "sh"] + program + [input.path, output.path])
        let lines = try String(contentsOf: output, encoding: .utf8).split(separator: "\n")
        #expect(lines.count == 2)
        #expect(lines[0].contains(#""kind": 2, "flags": 769, "status": 2"#))
        #expect(lines[0].contains(#""http.response.status_code": 503"#))
        #expect(lines[1].contains(#""links": ["00000000000000a1"]"#))
    }
}
