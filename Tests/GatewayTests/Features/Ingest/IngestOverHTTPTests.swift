import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncModel
import TestSupport
import Testing

/// `POST /v1/ingest` and its tokens, over HTTP.
@Suite struct IngestOverHTTPTests {
    private static let event =
        #"{"event_id":"a","entity_type":"task","id":7,"version":1,"#
        + #""operation":"upsert","document":{"title":"theirs"}}"#

    /// A service token of Ada's organization, created by the operator.
    private func token(_ fixture: TwoTenantFixture, source: String = "crm") async throws -> (id: String, text: String) {
        let reply = try await fixture.operate(.POST, fixture.admin + "/service-tokens", #"{"source":"\#(source)"}"#)
        #expect(reply.status == 201, "\(reply.text)")
        return (
            id: try #require(reply.json?["id"]?.string), text: try #require(reply.json?["token"]?.string)
        )
    }

    private func ingest(_ fixture: TwoTenantFixture, _ token: String?, _ events: String = event) async throws -> Reply {
        try await send(
            .POST,
            fixture.gateway.address + "/v1/ingest",
            token: token,
            body: Array(#"{"events":[\#(events)]}"#.utf8)
        )
    }

    @Test func `an event appears in the feed and wakes waiting pulls`() async throws {
        let fixture = try await TwoTenantFixture()
        let token = try await token(fixture).text
        let since = try #require(try await fixture.ada.get("/v1/changes").next)
        async let waiting = fixture.ada.get("/v1/changes?wait=60&since=\(since)")
        try await waitUntil("the phone waits") { try await fixture.metrics().contains("sluice_http_waits 1") }
        let reply = try await ingest(fixture, token)
        #expect(reply.status == 200, "\(reply.text)")
        #expect(reply.results.map { $0["result"]?.string } == ["applied"])
        let page = try await waiting
        #expect(page.changes.first?["document"]?["title"]?.string == "theirs")
        #expect(page.next == reply.json?["feed"]?.string)
        #expect(try await ingest(fixture, token).results[0]["original"]?.string == "applied")
        let bad = try await ingest(fixture, token, #"{"event_id":"b"}"#)
        #expect(bad.status == 200 && bad.results[0]["error"]?["code"]?.string == "validation_failed", "\(bad.text)")
    }

    @Test func `a service token is limited to its organization and to events, until it is revoked`() async throws {
        let fixture = try await TwoTenantFixture()
        let token = try await token(fixture)
        let guesses = [nil, fixture.ada.token, LiveGateway.operatorToken, String(token.text.dropLast()) + "A"]
        for other in guesses where other != token.text {
            expectProblem(try await ingest(fixture, other), .unauthorized, errors: [])
        }
        expectProblem(try await send(.GET, fixture.gateway.address + "/v1/changes", token: token.text), .unauthorized)
        let elsewhere = try await send(
            .POST,
            fixture.gateway.address + "/v1/ingest",
            token: token.text,
            headers: [("X-Sluice-Organization", UUID().lowercased)],
            body: Array(#"{"events":[]}"#.utf8)
        )
        expectProblem(elsewhere, .organizationUnknown)
        #expect(try await ingest(fixture, token.text).status == 200)
        #expect(try await fixture.eve.get("/v1/changes").changes.isEmpty)

        let list = try await fixture.operate(.GET, fixture.admin + "/service-tokens")
        let row = list.json?["service_tokens"]?.elements.map(Array.init)?.first
        #expect(row?["source"]?.string == "crm" && row?["last_used_at"]?.string != nil, "\(list.text)")
        #expect(!list.text.contains("slt_"))
        let revoked = try await fixture.operate(.DELETE, fixture.admin + "/service-tokens/\(token.id)")
        #expect(revoked.status == 200 && revoked.json?["revoked_at"]?.string != nil)
        expectProblem(try await ingest(fixture, token.text), .unauthorized, errors: [])
        #expect(try await fixture.operate(.DELETE, fixture.admin + "/service-tokens/\(UUID())").status == 404)
    }

    @Test func `rejects events of a suspended organization`() async throws {
        let fixture = try await TwoTenantFixture()
        let token = try await token(fixture).text
        #expect(try await fixture.operate(.PUT, fixture.admin, #"{"status":"suspended"}"#).status == 200)
        expectProblem(try await ingest(fixture, token), .organizationSuspended)
    }

    @Test func `a batch of events counts as one request of the quota`() async throws {
        let fixture = try await TwoTenantFixture()
        let token = try await token(fixture).text
        let settings = #"{"settings":{"requests_per_second":2}}"#
        #expect(try await fixture.operate(.PUT, fixture.admin, settings).status == 200)
        var statuses: [Int] = []
        for _ in 0..<4 { statuses.append(try await ingest(fixture, token).status) }
        #expect(statuses.contains(429), "\(statuses)")
        #expect(statuses.first == 200)
    }
}
