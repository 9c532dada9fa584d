import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncHTTP
import SyncModel
import TestSupport
import Testing

/// `/livez`, `/readyz`, `/metrics`, and the routes of each listener.
@Suite struct OperationsTests {
    @Test func `a gateway reports that it is alive and ready`() async throws {
        let fixture = try await TwoTenantFixture()
        for path in ["/livez", "/readyz"] {
            for accept in ["*/*", "text/plain"] {
                let reply = try await send(.GET, fixture.gateway.operations + path, headers: [("Accept", accept)])
                #expect(reply.status == 200)
                #expect(reply.header("content-type") == ["application/json"])
                #expect(reply.json?["status"]?.string == "ok")
            }
            #expect(try await send(.HEAD, fixture.gateway.operations + path).status == 200)
            let post = try await send(.POST, fixture.gateway.operations + path)
            expectProblem(post, .methodNotAllowed)
            #expect(post.header("allow") == ["GET, HEAD"])
        }
        #expect(try await send(.GET, fixture.gateway.operations + "/livez").json?["version"]?.string == "test")
    }

    @Test func `a gateway with another schema is not ready`() async throws {
        let fixture = try await TwoTenantFixture()
        try await fixture.execute("DROP TABLE schema_migrations")
        let reply = try await send(.GET, fixture.gateway.operations + "/readyz")
        #expect(reply.status == 503)
        #expect(reply.json?["status"]?.string == "unavailable")
        #expect(reply.json?["reasons"]?.elements?.count == 1)
        #expect(try await send(.GET, fixture.gateway.operations + "/livez").status == 200)
    }

    @Test func `each listener serves only its own paths`() async throws {
        let fixture = try await TwoTenantFixture()
        for path in ["/livez", "/readyz", "/metrics", "/admin/organizations", fixture.admin] {
            let url = fixture.gateway.address + path
            expectProblem(try await send(.GET, url, token: LiveGateway.operatorToken), .notFound, errors: [])
            expectProblem(try await send(.GET, url, token: fixture.ada.token), .notFound, errors: [])
        }
        let body = Array(fixture.ada.envelope([fixture.ada.create()]).utf8)
        for path in ["/v1/mutations", "/v1/changes", "/v1/id-mappings/lookup", "/v1/id-mappings", "/v1/backlog"] {
            let url = fixture.gateway.operations + path
            expectProblem(try await send(.GET, url, token: fixture.ada.token), .notFound, errors: [])
            expectProblem(try await send(.POST, url, token: fixture.ada.token, body: body), .notFound, errors: [])
        }
    }

    @Test func `the answer for an unknown path names the known paths`() async throws {
        let gateway = try await LiveGateway.start()
        let console = try await send(.GET, gateway.operations + "/console")
        let root = try await send(.GET, gateway.operations + "/")
        #expect(root.status == 302 ? root.header("location") == ["/console"] : root.body == console.body)
        for path in ["/", "/v2/mutations", "/admin/organizations"] {
            let reply = try await send(.GET, gateway.address + path)
            expectProblem(reply, .notFound, errors: [])
            #expect(reply.text.contains("/openapi.json describes every path"), "\(reply.text)")
        }
        #expect(try await send(.GET, gateway.operations + "/nope").text.contains("the console is at /console"))
        let plain = try await LiveGateway.start { $0.operatorTokens = nil }
        let refused = try await send(.GET, plain.operations + "/")
        #expect(refused.status == 404 && refused.text.contains("SLUICE_OPERATOR_TOKEN"), "\(refused.text)")
    }

    @Test func `the admin API does not exist without an operator token in the settings`() async throws {
        let gateway = try await LiveGateway.start { $0.operatorTokens = nil }
        for token in [LiveGateway.operatorToken, nil] {
            expectProblem(try await send(.GET, gateway.operations + "/admin/organizations", token: token), .notFound)
        }
        #expect(try await send(.GET, gateway.operations + "/readyz").status == 200)
    }

    @Test func `counts pushes and their mutations by result`() async throws {
        let fixture = try await TwoTenantFixture()
        let good = fixture.ada.create()
        var bad = fixture.ada.create()
        bad["priority"] = "-1"
        _ = try await fixture.ada.push([good, bad, fixture.ada.change(server: UUID().lowercased)])
        _ = try await fixture.ada.push([good])
        _ = try await fixture.ada.push([good, fixture.ada.create()], after: 99)
        _ = try await fixture.ada.post("/v1/mutations", "{")
        _ = try await fixture.ada.get("/v1/changes")
        _ = try await fixture.ada.get("/v1/mutations/\(UUID().lowercased)")
        _ = try await fixture.ada.get("/nowhere/\(UUID().lowercased)")
        let lines = Set(try await fixture.metrics())
        let expected = [
            #"sluice_pushes_total{result="accepted"} 2"#, #"sluice_pushes_total{result="refused"} 2"#,
            #"sluice_pushes_total{result="error"} 0"#,
            #"sluice_mutations_total{replayed="false",status="succeeded"} 1"#,
            #"sluice_mutations_total{replayed="true",status="succeeded"} 1"#,
            #"sluice_mutations_total{replayed="false",status="rejected"} 1"#,
            #"sluice_mutations_total{replayed="false",status="failed"} 1"#,
            "sluice_push_mutations_count 2", "sluice_push_mutations_sum 4",
            #"sluice_http_requests_total{method="POST",route="/v1/mutations",status="2xx"} 2"#,
            #"sluice_http_requests_total{method="POST",route="/v1/mutations",status="4xx"} 2"#,
            #"sluice_http_requests_total{method="GET",route="/v1/changes",status="2xx"} 1"#,
            #"sluice_http_requests_total{method="GET",route="/v1/mutations/{id}",status="4xx"} 1"#,
            #"sluice_http_requests_total{method="any",route="unmatched",status="4xx"} 1"#,
            #"sluice_http_request_duration_seconds_count{method="GET",route="/v1/changes"} 1"#,
            "sluice_http_requests_in_flight 0", "sluice_http_held_body_bytes 0",
            "sluice_http_held_answer_bytes 0", "sluice_http_waits 0",
            #"sluice_http_overloads_total{budget="bodies"} 0"#,
            #"sluice_http_clients_cut_off_total{reason="unread"} 0"#,
        ]
        #expect(expected.filter { !lines.contains($0) } == [])
    }

    @Test func `no label contains a tenant, a user or a path`() async throws {
        let fixture = try await TwoTenantFixture()
        let draft = fixture.ada.create("diary")
        _ = try await fixture.ada.push([draft])
        _ = try await fixture.ada.get("/v1/mutations/\(draft.id)")
        _ = try await fixture.ada.get("/\(fixture.ada.user.lowercased)")
        let text = try await fixture.metrics().joined(separator: "\n").lowercased()
        for secret in [fixture.ada.organization, fixture.ada.user, fixture.ada.device].map(\.lowercased) + [
            draft.id, "diary",
        ] {
            #expect(!text.contains(secret))
        }
    }

    @Test(.enabled(if: Promtool.path != nil, "promtool is not installed (scripts/bootstrap --tests)"))
    func `promtool finds no problem in the metrics`() async throws {
        let fixture = try await TwoTenantFixture()
        try await fixture.expectServed()
        let reply = try await send(.GET, fixture.gateway.operations + "/metrics")
        #expect(reply.header("content-type") == ["text/plain; version=0.0.4; charset=utf-8"])
        #expect(try await Promtool.remarks(on: reply.body) == "")
    }
}
