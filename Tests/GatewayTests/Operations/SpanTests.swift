import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import TestSupport
import Testing

/// Spans of the real program. A receiver decodes them with the classes of opentelemetry-proto.
@Suite(.timeLimit(.minutes(10))) struct SpanTests {
    private static let trace = "0af7651916cd43dd8448eb211c80319c"
    private static let phone = "b7ad6b7169203331"

    /// A receiver of traces, and what it has received.
    private final class Receiver: Sendable {
        private let server: TestServer
        var url: String { "http://127.0.0.1:\(server.port)" }

        init() async throws {
            server = try await TestServer.start { directory, port in
                try PythonProgram.command("receiver.py", in: "OpenTelemetry") + ["\(port)", "\(directory)/spans"]
            }
        }

        var text: String { (try? String(contentsOfFile: "\(server.directory)/spans", encoding: .utf8)) ?? "" }

        var spans: [JSONValue] {
            text.split(separator: "\n").compactMap { try? JSONTree(parsing: Array($0.utf8)).root }
        }

        /// Waits for spans with these names, in any order, and returns them.
        func wait(for names: [String]) async throws -> [String: JSONValue] {
            try await waitUntil("spans \(names): \(text)", every: .milliseconds(50)) {
                Set(names).isSubset(of: spans.compactMap { $0["name"]?.string })
            }
            return Dictionary(spans.map { ($0["name"]?.string ?? "", $0) }) { first, _ in first }
        }
    }

    private func gateway(
        _ database: TestDatabase,
        _ receiver: String,
        _ more: [String: String] = [:]
    ) async throws -> GatewayProcess {
        let settings = ["OTEL_EXPORTER_OTLP_ENDPOINT": receiver, "OTEL_TRACES_SAMPLER_ARG": "1"]
        return try await GatewayProcess.start(database: database.uri, settings: settings.merging(more) { $1 })
    }

    private func push(
        _ worker: SingleWorker,
        _ drafts: [Draft],
        _ flag: String?,
        in trace: String = trace,
        wait: Int = 20
    ) async throws -> Reply {
        try await send(
            .POST,
            worker.gateway.address + "/v1/mutations",
            token: worker.token,
            headers: [("Prefer", "wait=\(wait)")]
                + (flag.map { [("traceparent", "00-\(trace)-\(Self.phone)-\($0)")] } ?? []),
            body: Array(worker.envelope(drafts).utf8)
        )
    }

    @Test func `one trace contains the request, the commits, the lane's steps and the attempt`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        defer { withExtendedLifetime(database) {} }
        let receiver = try await Receiver()
        let gateway = try await gateway(database, receiver.url, ["OTEL_SERVICE_NAME": "gateway-a"])
        let worker = try await SingleWorker(gateway)
        let upstream = try await HTTPBinServer.shared()
        let settings = #"{"base_url":"\#(upstream.baseURL)","id_pointer":"/json/ref"}"#
        try await gateway.operate("/upstream", of: worker.organization, settings)
        let draft = worker.draft(
            1,
            ["entity_type": #""visit""#, "endpoint": #""/anything/hush""#, "payload": #"{"ref":"hush"}"#]
        )
        let reply = try await push(worker, [draft], "01")
        #expect(reply.statuses == ["succeeded"], "\(reply.text)")
        let names = ["POST /v1/mutations", "push", "commit pushes", "lane step", "POST", "commit steps"]
        // two steps of the lane
        try await waitUntil("all spans: \(receiver.text)", every: .milliseconds(50)) {
            receiver.spans.count { $0["trace"]?.string == Self.trace } > names.count
        }
        let found = try await receiver.wait(for: names)
        let spans = receiver.spans.filter { $0["trace"]?.string == Self.trace }
        func parent(_ name: String) -> String? { found[name]?["parent"]?.string }
        func id(_ name: String) -> String? { found[name]?["span"]?.string }
        #expect(parent("POST /v1/mutations") == Self.phone)
        #expect(parent("push") == id("POST /v1/mutations"))
        #expect(parent("commit pushes") == id("push") && parent("POST") == id("push"))
        #expect(found["commit pushes"]?["links"]?.text == #"["\#(id("push") ?? "")"]"#)
        #expect(found["push"]?["links"]?.text == #"["\#(id("commit pushes") ?? "")"]"#)
        let steps = spans.filter { $0["name"]?.string == "lane step" }
        let kinds = steps.compactMap { $0.value(at: "/attributes/sluice.lane.step")?.string }
        #expect(Set(kinds) == ["start", "settle"], "\(kinds)")
        #expect(steps.allSatisfy { $0["parent"]?.string == id("push") })
        let settling = steps.first { $0.value(at: "/attributes/sluice.outcome")?.string == "succeeded" }
        #expect(parent("commit steps") == settling?["span"]?.string)

        let request = try #require(found["POST /v1/mutations"])
        #expect(request.value(at: "/attributes/http.route")?.string == "/v1/mutations")
        #expect(request.value(at: "/attributes/http.response.status_code")?.text == "200")
        #expect(request["kind"]?.text == "2" && found["POST"]?["kind"]?.text == "3")
        #expect(request.value(at: "/resource/service.name")?.string == "gateway-a")
        #expect(found["POST"]?.value(at: "/attributes/server.address")?.string == "127.0.0.1")
        #expect(found["POST"]?.value(at: "/attributes/sluice.outcome")?.string == "succeeded")
        // the parent that the upstream receives is the span of the attempt
        let sent = reply.results.first?.value(at: "/response/body/headers/Traceparent")?.string
        #expect(sent == "00-\(Self.trace)-\(id("POST") ?? "")-01")
        let text = receiver.text
        #expect(!text.contains("hush") && !text.contains(worker.organization.lowercased))
        #expect(!text.contains(worker.user.lowercased))
    }

    @Test func `a batch has one span, with links to the pushes of its parts`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        defer { withExtendedLifetime(database) {} }
        let receiver = try await Receiver()
        let gateway = try await gateway(database, receiver.url)
        let worker = try await SingleWorker(gateway)
        let demo = try await DemoServer.start()
        try await gateway.operate("", of: worker.organization, #"{"settings":{"order":"dependencies"}}"#)
        // both pushes are accepted before the first request, so that one batch has all of their mutations
        let upstream = #"{"base_url":"\#(demo.baseURL)","batch":{"path":"/$batch"},"status":"paused"}"#
        try await gateway.operate("/upstream", of: worker.organization, upstream)
        let contact = ["entity_type": #""contact""#, "endpoint": #""/contacts""#, "payload": #"{"name":"Ada"}"#]
        let missing = [
            "entity_type": #""contact""#, "operation": #""update""#, "server_id": "987654",
            "endpoint": #""/contacts/987654""#,
        ]
        let other = "4bf92f3577b34da6a3ce929d0e0e4736"
        let drafts = [worker.draft(1, contact), worker.draft(2, contact), worker.draft(3, missing)]
        #expect(try await push(worker, [drafts[0]], "01", wait: 0).statuses == ["pending"])
        #expect(
            try await push(worker, Array(drafts[1...]), "01", in: other, wait: 0).statuses == ["pending", "pending"]
        )
        try await gateway.operate("/upstream", of: worker.organization, #"{"status":"active"}"#)
        for (draft, status) in zip(drafts, ["succeeded", "succeeded", "failed"]) {
            let done = try await worker.get("/v1/mutations/\(draft.id)?wait=60")
            #expect(done.json?["status"]?.string == status, "\(done.text)")
        }
        try await waitUntil("the settled steps: \(receiver.text)", every: .milliseconds(50)) {
            receiver.spans.count { $0.value(at: "/attributes/sluice.lane.step")?.string == "settle" } == 3
                && receiver.spans.contains { $0["name"]?.string == "POST" }
        }
        func pushed(_ trace: String) -> String? {
            receiver.spans.first { $0["name"]?.string == "push" && $0["trace"]?.string == trace }?["span"]?.string
        }
        let attempts = receiver.spans.filter { $0["name"]?.string == "POST" }
        let attempt = try #require(attempts.first)
        #expect(attempts.count == 1 && attempt["trace"]?.string == Self.trace && attempt["kind"]?.text == "3")
        #expect(attempt["parent"]?.string == pushed(Self.trace))
        #expect(attempt["links"]?.text == #"["\#(pushed(other) ?? "")"]"#)
        for (name, value) in [
            ("http.request.method", #""POST""#), ("http.response.status_code", "200"),
            ("server.address", #""127.0.0.1""#), ("server.port", "\(demo.port)"), ("sluice.mutations", "3"),
            ("sluice.outcome", #""partial""#),
        ] {
            #expect(attempt.value(at: "/attributes/\(name)")?.text == value, "\(name)")
        }
        #expect(attempt["status"]?.text == "0", "a refused part is no error of the batch")
        // from the trace of each part, the link of its last step leads to the batch
        let steps = receiver.spans.filter { $0.value(at: "/attributes/sluice.lane.step")?.string == "settle" }
        #expect(steps.allSatisfy { $0["links"]?.text.contains(attempt["span"]?.text ?? "-") == true })
        #expect(steps.count { $0["trace"]?.string == other } == 2)
    }

    @Test func `mutations of the built-in store and polled items have spans`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        defer { withExtendedLifetime(database) {} }
        let receiver = try await Receiver()
        let gateway = try await gateway(database, receiver.url, ["SLUICE_METRICS_ORGANIZATIONS": "1"])
        let worker = try await SingleWorker(gateway)
        let demo = try await DemoServer.start()
        try await gateway.operate("/upstream", of: worker.organization, #"{"base_url":"\#(demo.baseURL)"}"#)
        try await gateway.operate("/entity-types/note", of: worker.organization, #"{"upstream":false}"#)
        let shared = #"{"upstream":true,"visibility":"organization"}"#
        try await gateway.operate("/entity-types/contact", of: worker.organization, shared)
        let contact = ["entity_type": #""contact""#, "endpoint": #""/contacts""#, "payload": #"{"name":"Ada"}"#]
        // the note waits in the lane behind the contact
        let drafts = [worker.draft(1, contact), worker.draft(2, ["entity_type": #""note""#])]
        #expect(try await push(worker, drafts, "01").statuses == ["succeeded", "succeeded"])
        let poller = """
            {"kind":"poller","settings":{"path":"/contacts?view=changes","mapping":{"rules":[
              {"entity_type":"contact","operation":"upsert","id":"/id","version":"/version","document":"/document"}]}}}
            """
        try await gateway.operate("/sources/crm", of: worker.organization, poller)
        let found = try await receiver.wait(for: ["source batch", "ingest", "commit batches"])
        #expect(found["source batch"]?["parent"]?.string == "")
        let organization = found["source batch"]?.value(at: "/attributes/sluice.organization.id")?.string
        #expect(organization == worker.organization.lowercased)
        #expect(found["ingest"]?["parent"]?.string == found["source batch"]?["span"]?.string)
        let steps = receiver.spans.filter { $0["name"]?.string == "lane step" }
        let kinds = steps.compactMap { $0.value(at: "/attributes/sluice.lane.step")?.string }
        #expect(Set(kinds) == ["start", "settle", "apply"], "\(kinds)")
    }

    @Test func `pulls, events and webhooks have spans, with organizations if the setting allows it`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        defer { withExtendedLifetime(database) {} }
        let receiver = try await Receiver()
        let gateway = try await gateway(
            database,
            receiver.url,
            ["SLUICE_METRICS_ORGANIZATIONS": "1", "SLUICE_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8"]
        )
        let worker = try await SingleWorker(gateway)
        let admin = "\(gateway.operations)/admin/organizations/\(worker.organization.lowercased)"
        func operate(_ path: String, _ body: String) async throws -> Reply {
            let bytes = body.isEmpty ? nil : Array(body.utf8)
            return try await send(.POST, admin + path, token: GatewayProcess.operatorToken, body: bytes)
        }
        #expect(try await worker.get("/v1/changes").status == 200)
        let token = try await operate("/service-tokens", #"{"source":"crm"}"#).json?["token"]?.string
        let event = #"{"event_id":"a","entity_type":"task","id":7,"version":1,"operation":"upsert","document":{}}"#
        let ingested = try await send(
            .POST,
            gateway.address + "/v1/ingest",
            token: token,
            body: Array(#"{"events":[\#(event)]}"#.utf8)
        )
        #expect(ingested.status == 200, "\(ingested.text)")
        let upstream = try await HTTPBinServer.shared()
        let webhook = try await operate("/webhooks", #"{"url":"\#(upstream.baseURL)/status/204"}"#)
        #expect(webhook.status == 201, "\(webhook.text)")
        let id = try #require(webhook.json?["id"]?.string)
        #expect(try await operate("/webhooks/\(id)/test", "").status < 300)
        let found = try await receiver.wait(for: [
            "GET /v1/changes", "pull", "POST /v1/ingest", "ingest", "commit batches", "POST",
        ])
        for (child, parent) in [
            ("pull", "GET /v1/changes"), ("ingest", "POST /v1/ingest"), ("commit batches", "ingest"),
        ] {
            #expect(found[child]?["parent"]?.string == found[parent]?["span"]?.string, "\(child)")
        }
        let delivery = try #require(found["POST"])
        #expect(delivery["parent"]?.string == "")
        #expect(delivery.value(at: "/attributes/http.response.status_code")?.text == "204")
        for name in ["pull", "ingest", "POST"] {
            let organization = found[name]?.value(at: "/attributes/sluice.organization.id")?.string
            #expect(organization == worker.organization.lowercased, "\(name)")
        }
        let text = try await send(.GET, gateway.operations + "/metrics").text
        #expect(text.contains("\nsluice_traces_queued ") && text.contains("\nsluice_traces_exported_total "))
    }

    @Test func `follows the client's sampling decision, and logs a trace that the gateway began`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        defer { withExtendedLifetime(database) {} }
        let receiver = try await Receiver()
        let gateway = try await gateway(database, receiver.url, ["SLUICE_LOG_LEVEL": "debug"])
        let worker = try await SingleWorker(gateway)
        #expect(try await push(worker, [worker.draft(1)], "00").status == 200)
        #expect(try await push(worker, [worker.draft(2)], nil).status == 200)
        let push = try #require(try await receiver.wait(for: ["POST /v1/mutations"])["POST /v1/mutations"])
        let ofPhone = receiver.spans.count { $0["trace"]?.string == Self.trace }
        #expect(ofPhone == 0)
        #expect(push["parent"]?.string == "")
        let traces = gateway.lines.filter { $0["route"]?.string == "/v1/mutations" }.map { $0["trace_id"]?.string }
        #expect(traces == [Self.trace, push["trace"]?.string])
    }

    @Test func `sends the last spans before the end of the process`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        defer { withExtendedLifetime(database) {} }
        let receiver = try await Receiver()
        let gateway = try await gateway(database, receiver.url)
        let worker = try await SingleWorker(gateway)
        #expect(try await push(worker, [worker.draft(1)], "01").status == 200)
        #expect(try await gateway.terminate() == 0)
        #expect(receiver.spans.contains { $0["name"]?.string == "push" })
    }

    @Test func `an unavailable receiver is logged once and does not delay requests`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        defer { withExtendedLifetime(database) {} }
        let port = try LoopbackPort.reserve()
        let gateway = try await gateway(database, "http://127.0.0.1:\(port)", ["SLUICE_LOG_LEVEL": "warning"])
        let worker = try await SingleWorker(gateway)
        for number in 1...3 { #expect(try await push(worker, [worker.draft(Int64(number))], "01").status == 200) }
        try await gateway.metric("sluice_traces_export_failures_total", reaches: 2)
        let complaint = "Traces cannot be exported; spans are dropped while this lasts"
        #expect(gateway.messages.filter { $0 == complaint }.count == 1)
        #expect(try await gateway.terminate() == 0)
    }

    @Test func `without the setting, nothing is sent and no span is recorded`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        defer { withExtendedLifetime(database) {} }
        let gateway = try await GatewayProcess.start(database: database.uri, settings: ["OTEL_TRACES_SAMPLER_ARG": "1"])
        let worker = try await SingleWorker(gateway)
        #expect(try await push(worker, [worker.draft(1)], "01").status == 200)
        #expect(try await !send(.GET, gateway.operations + "/metrics").text.contains("sluice_traces_"))
    }
}
