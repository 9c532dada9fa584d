import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import TestSupport
import Testing

/// A trace continues from the phone's request through the stored mutation to the upstream, and is in the log lines
/// about both.
@Suite(.timeLimit(.minutes(10))) struct TraceTests {
    private static let trace = "0af7651916cd43dd8448eb211c80319c"
    private static let span = "b7ad6b7169203331"

    /// A gateway that logs everything, and an upstream that returns the request that it received.
    private func fixture(_ database: TestDatabase) async throws -> (gateway: GatewayProcess, worker: SingleWorker) {
        let settings = ["SLUICE_LOG_LEVEL": "debug"]
        let gateway = try await GatewayProcess.start(database: database.uri, settings: settings)
        let worker = try await SingleWorker(gateway)
        let upstream = try await HTTPBinServer.shared()
        let url = "\(gateway.operations)/admin/organizations/\(worker.organization.lowercased)/upstream"
        let body = Array(#"{"base_url":"\#(upstream.baseURL)","id_pointer":"/json/ref"}"#.utf8)
        let reply = try await send(.PUT, url, token: GatewayProcess.operatorToken, body: body)
        #expect(reply.status == 201, "\(reply.text)")
        return (gateway, worker)
    }

    private func visit(_ worker: SingleWorker, _ number: Int64, at endpoint: String) -> Draft {
        let members = [
            "entity_type": #""visit""#, "endpoint": #""\#(endpoint)""#, "payload": #"{"ref":"v-\#(number)"}"#,
        ]
        return worker.draft(number, members)
    }

    private func push(_ worker: SingleWorker, _ draft: Draft, _ headers: [(String, String)]) async throws -> Reply {
        try await send(
            .POST,
            worker.gateway.address + "/v1/mutations",
            token: worker.token,
            headers: [("Prefer", "wait=20")] + headers,
            body: Array(worker.envelope([draft]).utf8)
        )
    }

    private func lines(_ gateway: GatewayProcess, of mutation: String) -> [JSONValue] {
        gateway.lines.filter { $0["mutation"]?.string == mutation }
    }

    @Test func `a trace continues from the request to the upstream and all log lines`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        defer { withExtendedLifetime(database) {} }
        let (gateway, worker) = try await fixture(database)
        let draft = visit(worker, 1, at: "/anything/visits")
        let headers = [("traceparent", "00-\(Self.trace)-\(Self.span)-01"), ("X-Request-ID", "request-of-the-phone")]
        let reply = try await push(worker, draft, headers + [("tracestate", "vendor=1")])
        #expect(reply.statuses == ["succeeded"], "\(reply.text)")
        let sent = try #require(reply.results.first?.value(at: "/response/body/headers/Traceparent")?.string)
        #expect(sent.hasPrefix("00-\(Self.trace)-") && sent.hasSuffix("-01"))
        #expect(!sent.contains(Self.span), "the upstream's parent is the gateway's own span")
        // another system's trace state is not kept
        #expect(reply.results.first?.value(at: "/response/body/headers/Tracestate") == nil)
        let answered = gateway.lines.filter { $0["request_id"]?.string == "request-of-the-phone" }
        #expect(answered.map { $0["message"]?.string } == ["Request answered"])
        #expect(answered.map { $0["trace_id"]?.string } == [Self.trace])
        let attempts = lines(gateway, of: draft.id)
        #expect(attempts.map { $0["message"]?.string } == ["Attempt succeeded"])
        #expect(attempts.map { $0["trace_id"]?.string } == [Self.trace])
    }

    @Test func `log lines of failed attempts contain the trace as well`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        defer { withExtendedLifetime(database) {} }
        let (gateway, worker) = try await fixture(database)
        let draft = visit(worker, 1, at: "/status/422")
        let reply = try await push(worker, draft, [("traceparent", "00-\(Self.trace)-\(Self.span)-00")])
        #expect(reply.statuses == ["failed"], "\(reply.text)")
        let attempts = lines(gateway, of: draft.id)
        #expect(attempts.map { $0["message"]?.string } == ["Attempt failed"])
        #expect(attempts.map { $0["trace_id"]?.string } == [Self.trace])
        // a user's retry is a separate request; the mutation keeps its trace
        let retried = try await send(
            .POST,
            gateway.address + "/v1/mutations/\(draft.id)/retry",
            token: worker.token,
            headers: [("traceparent", "00-11111111111111111111111111111111-\(Self.span)-00")],
            body: Array(#"{"endpoint":"/anything"}"#.utf8)
        )
        #expect(retried.status == 200, "\(retried.text)")
        let done = try await worker.get("/v1/mutations/\(draft.id)?wait=20")
        let header = done.json?.value(at: "/response/body/headers/Traceparent")?.string
        #expect(header?.hasPrefix("00-\(Self.trace)-") == true, "\(done.text)")
        #expect(lines(gateway, of: draft.id).compactMap { $0["trace_id"]?.string } == [Self.trace, Self.trace])
    }

    @Test(arguments: [
        nil, "", "nonsense", "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ])
    func `a request without a valid trace gets a trace derived from its id`(header: String?) async throws {
        let database = try await LiveGateway.migratedDatabase()
        defer { withExtendedLifetime(database) {} }
        let (gateway, worker) = try await fixture(database)
        let draft = visit(worker, 1, at: "/anything")
        let headers = [("X-Request-ID", "plain")] + (header.map { [("traceparent", $0)] } ?? [])
        let reply = try await push(worker, draft, headers)
        #expect(reply.statuses == ["succeeded"], "\(reply.text)")
        let trace = draft.id.replacingOccurrences(of: "-", with: "")
        let sent = try #require(reply.results.first?.value(at: "/response/body/headers/Traceparent")?.string)
        #expect(sent.hasPrefix("00-\(trace)-") && sent.hasSuffix("-00"))
        #expect(lines(gateway, of: draft.id).map { $0["trace_id"]?.string } == [trace])
        let answered = gateway.lines.filter { $0["request_id"]?.string == "plain" }
        #expect(answered.count == 1 && answered.first?["trace_id"] == nil)
    }

    /// The known part of a header of a later version is used, regardless of the length of the rest.
    @Test func `uses the known part of a trace header of a later version`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        defer { withExtendedLifetime(database) {} }
        let (gateway, worker) = try await fixture(database)
        let draft = visit(worker, 1, at: "/anything")
        let more = String(repeating: "x", count: 4_000)
        let reply = try await push(worker, draft, [("traceparent", "01-\(Self.trace)-\(Self.span)-01-\(more)")])
        #expect(reply.statuses == ["succeeded"], "\(reply.text)")
        let sent = reply.results.first?.value(at: "/response/body/headers/Traceparent")?.string
        #expect(sent?.hasPrefix("00-\(Self.trace)-") == true)
        #expect(lines(gateway, of: draft.id).map { $0["trace_id"]?.string } == [Self.trace])
    }

    /// Internal code logs errors without access to the request, but the lines contain the request's ids.
    @Test func `the store's log lines contain their request's ids`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        let settings = ["SLUICE_LOG_LEVEL": "debug", "SLUICE_STATEMENT_SECONDS": "5"]
        let gateway = try await GatewayProcess.start(database: database.uri, settings: settings)
        let worker = try await SingleWorker(gateway)
        #expect(try await worker.get("/v1/backlog").status == 200)
        try await database.close()
        let reply = try await send(
            .GET,
            gateway.address + "/v1/backlog",
            token: worker.token,
            headers: [("traceparent", "00-\(Self.trace)-\(Self.span)-00"), ("X-Request-ID", "in-vain")]
        )
        #expect(reply.status == 503, "\(reply.text)")
        let lines = gateway.lines.filter { $0["request_id"]?.string == "in-vain" }
        #expect(Set(lines.compactMap { $0["message"]?.string }) == ["Store is unavailable", "Request answered"])
        #expect(lines.allSatisfy { $0["trace_id"]?.string == Self.trace })
    }
}
