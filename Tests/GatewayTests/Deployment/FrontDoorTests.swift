import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncModel
import TestSupport
import Testing

/// nginx and Caddy from Debian, with the configurations of docker/, in front of two gateways.
@Suite(
    .enabled(
        if: TestServer.program("openssl") != nil && TestServer.program("nginx") != nil
            && TestServer.program("caddy") != nil,
        "nginx, Caddy or openssl is not installed (scripts/bootstrap --tests)"
    ),
    .serialized,
    .timeLimit(.minutes(10))
)
struct FrontDoorTests {
    @Test(arguments: FrontDoor.Kind.allCases)
    func `the proxy passes pushes, pulls, waits and events`(_ kind: FrontDoor.Kind) async throws {
        let door = try await FrontDoor(kind, settings: ["SLUICE_LOG_LEVEL": "debug"])
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        let draft = door.worker.draft(1)
        let (reply, version) = try await door.version(
            .POST,
            "/v1/mutations",
            headers: [("X-Request-ID", "from-the-phone"), ("traceparent", "00-\(trace)-00f067aa0ba902b7-01")],
            body: Array(door.worker.envelope([draft]).utf8)
        )
        #expect(reply.statuses == ["succeeded"], "\(reply.text)")
        #expect(version == .http2)
        #expect(reply.header("x-request-id") == ["from-the-phone"])
        #expect(reply.header("strict-transport-security").count == 1)
        #expect(reply.header("retry-after") == [])
        let lines = door.gateways.flatMap(\.lines).filter { $0["request_id"]?.string == "from-the-phone" }
        #expect(lines.compactMap { $0["trace_id"]?.string } == [trace])

        // two events arrive in sequence while the stream is open
        let events = try await EventListener(door.address, token: door.worker.token, client: door.client)
        #expect(events.status == 200)
        #expect(events.headers.first(name: "content-type")?.hasPrefix("text/event-stream") == true)
        #expect(events.headers.first(name: "content-encoding") == nil)
        #expect(try await events.next()?.summary == "opening")
        for number in 2...3 {
            let draft = door.worker.draft(Int64(number))
            #expect(try await door.push([draft]).status == 200)
            _ = try await events.until { $0.summary == "\(draft.id) succeeded" }
        }

        // a long poll ends when a change arrives
        let next = try #require(try await door.send(.GET, "/v1/changes").next)
        async let pulled = door.send(.GET, "/v1/changes?since=\(next)&wait=60")
        let inHand = "sluice_http_requests_in_flight"
        try await Self.someGateway(of: door, shows: "\(inHand) 1")
        #expect(try await door.push([door.worker.draft(4)]).status == 200)
        #expect(try await pulled.changes.count == 1)
        events.stop()
    }

    /// Waits until a gateway's metrics contain a line.
    private static func someGateway(of door: FrontDoor, shows line: String) async throws {
        try await waitUntil("a gateway shows \(line)") {
            for gateway in door.gateways {
                let page = try await GatewayProcess.get(gateway.operations + "/metrics", token: "").text
                if page.split(separator: "\n").contains(Substring(line)) { return true }
            }
            return false
        }
    }

    @Test(arguments: FrontDoor.Kind.allCases)
    func `the proxy exposes only the public API`(_ kind: FrontDoor.Kind) async throws {
        let door = try await FrontDoor(kind)
        for path in ["/openapi.json", "/.well-known/jwks.json"] {
            #expect(try await door.send(.GET, path).status == 200)
        }
        #expect(try await door.send(.GET, "/v1/backlog").status == 200)
        let hidden = [
            "/metrics", "/livez", "/readyz", "/admin/organizations", "/", "/v1", "/v1/../admin/organizations",
            "/v1/%2e%2e/metrics", "//metrics", "/v1/..%2fmetrics",
        ]
        for path in hidden {
            let token = [("authorization", "Bearer \(GatewayProcess.operatorToken)")]
            let reply = try await door.send(.GET, path, headers: path.hasPrefix("/admin") ? token : [])
            #expect((400..<500).contains(reply.status), "\(path): \(reply.status)")
            #expect(!reply.text.contains("sluice_") && !reply.text.contains("organizations\":"), "\(path)")
        }
        let missing = try await door.send(.GET, "/metrics")
        expectProblem(missing, .notFound)
    }

    @Test(arguments: FrontDoor.Kind.allCases)
    func `the proxy rejects a body that is too large with a problem document`(_ kind: FrontDoor.Kind) async throws {
        let door = try await FrontDoor(kind)
        // just below the limit, and invalid
        let most = [UInt8](repeating: UInt8(ascii: " "), count: 4_194_304)
        #expect(try await door.send(.POST, "/v1/mutations", body: most).code == "invalid_json")
        let reply = try await door.send(.POST, "/v1/mutations", body: most + most)
        expectProblem(reply, .payloadTooLarge)
    }

    @Test(arguments: FrontDoor.Kind.allCases)
    func `an allowed origin can read responses of the gateway and of the proxy`(_ kind: FrontDoor.Kind)
        async throws
    {
        let page = "https://app.example.org"
        let door = try await FrontDoor(kind, settings: ["SLUICE_CORS_ORIGINS": page])
        let headers = [("Origin", page)]
        let asks = [("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "authorization")]
        let preflight = try await door.send(.OPTIONS, "/v1/mutations", headers: headers + asks)
        #expect(preflight.status == 204 && preflight.header("access-control-max-age") == ["7200"])
        let replies = [
            preflight, try await door.send(.GET, "/v1/backlog", headers: headers),
            try await door.send(.GET, "/metrics", headers: headers),
            try await door.send(
                .POST,
                "/v1/mutations",
                headers: headers,
                body: [UInt8](repeating: UInt8(ascii: " "), count: 8_388_608)
            ),
        ]
        #expect(replies.map(\.status) == [204, 200, 404, 413])
        for reply in replies { #expect(reply.header("access-control-allow-origin") == [page]) }
        for path in ["/v1/backlog", "/metrics"] {
            let reply = try await door.send(.GET, path, headers: [("Origin", "https://app.example.org.evil.com")])
            #expect(reply.header("access-control-allow-origin") == [])
        }
    }

    @Test(arguments: FrontDoor.Kind.allCases)
    func `the other gateway serves when one is killed`(_ kind: FrontDoor.Kind) async throws {
        let door = try await FrontDoor(kind)
        #expect(try await door.push([door.worker.draft(1)]).status == 200)
        try await door.gateways[0].crash()
        // nginx buffers bodies and retries at the other gateway; Caddy returns Retry-After until its health check
        // detects the dead gateway
        if kind == .caddy { try await Self.pushUntilTaken(door.worker.draft(2), through: door) }
        for number in 3...25 {
            let reply = try await door.push([door.worker.draft(Int64(number))])
            #expect(reply.statuses == ["succeeded"], "\(number): \(reply.status) \(reply.text)")
        }
        try await door.gateways[1].crash()
        let away = try await door.push([door.worker.draft(26)])
        expectProblem(away, .overloaded)
        #expect(away.header("retry-after") == ["2"])
    }

    /// Like a worker, repeats the same push until it is accepted several times in a row.
    private static func pushUntilTaken(_ draft: Draft, through door: FrontDoor) async throws {
        var successes = 0
        try await waitUntil("a push is accepted ten times in a row", every: .zero) {
            let reply = try await door.push([draft])
            successes = reply.status == 200 ? successes + 1 : 0
            if reply.status != 200 { expectProblem(reply, .overloaded) }
            return successes == 10
        }
    }

    /// If a gateway dies while it processes a request, even a push, the request is sent to the other gateway.
    @Test func `nginx retries a request that a dead gateway did not answer at the other gateway`() async throws {
        // the gateway may die during an attempt, and the other gateway sends nothing before the lease has expired
        let door = try await FrontDoor(.nginx, settings: ["SLUICE_LEASE_SECONDS": "5"])
        // the response waits for the outcome, so either gateway may process it
        let draft = door.worker.draft(1, ["entity_type": #""visit""#, "endpoint": #""/visits""#])
        let upstream = try await NginxServer.start(configuration: "location / { return 503; }")
        let organization = door.worker.organization.lowercased
        let body = Array(#"{"base_url":"\#(upstream.baseURL)"}"#.utf8)
        let url = "\(door.gateways[0].operations)/admin/organizations/\(organization)/upstream"
        let made = try await GatewayTests.send(.PUT, url, token: GatewayProcess.operatorToken, body: body)
        #expect(made.status == 201)
        async let answered = door.push([draft], headers: [("Prefer", "wait=60")])
        let dying = try await Self.index(in: door)
        try await door.gateways[dying].crash()
        // an unsettled mutation would block the response; between two attempts it can be discarded
        let left = door.gateways[1 - dying].address + "/v1/mutations/\(draft.id)/discard"
        try await waitUntil("it is discarded", every: .milliseconds(50)) {
            try await GatewayProcess.post(left, token: door.worker.token, body: "{}").status == 200
        }
        let reply = try await answered
        #expect(reply.statuses == ["discarded"], "\(reply.text)")
        #expect(reply.results.first?["replayed"]?.bool == true, "\(reply.text)")
        // the log line names both gateways, and is written after the response
        var log = ""
        try await waitUntil("the log names both: \(log)", every: .milliseconds(20)) {
            log = try String(contentsOfFile: door.proxy.directory + "/access.log", encoding: .utf8)
            return log.contains(#/"gateway":"127\.0\.0\.\d:\d+, 127/#)
        }
    }

    /// The gateway that is processing a mutation.
    private static func index(in door: FrontDoor) async throws -> Int {
        var found: Int?
        try await waitUntil("a gateway accepts the push") {
            for (index, gateway) in door.gateways.enumerated() where found == nil {
                let page = try await GatewayProcess.get(gateway.operations + "/metrics", token: "").text
                if page.contains("\nsluice_pushes_total{result=\"accepted\"} 1\n") { found = index }
            }
            return found != nil
        }
        return try #require(found)
    }

    /// Limited to one request a second instead of a hundred, so that the result does not depend on the sending rate.
    @Test func `nginx limits a flood of requests from one address`() async throws {
        let door = try await FrontDoor(.nginx, changes: ["rate=100r/s": "rate=1r/s"])
        let replies = try await withThrowingTaskGroup(of: Reply.self) { group in
            for _ in 0..<900 { group.addTask { try await door.send(.GET, "/.well-known/jwks.json") } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        let refused = replies.filter { $0.status != 200 }
        #expect(replies.count - refused.count > 400, "the allowed requests are served")
        let one = try #require(refused.first, "no request is rejected")
        expectProblem(one, .rateLimited)
        #expect(one.header("retry-after") == ["2"])
    }
}
