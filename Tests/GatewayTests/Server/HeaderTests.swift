import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncModel
import Testing

/// `X-Request-ID`, `traceparent`, and the other headers of every response.
@Suite struct HeaderTests {
    @Test func `every response returns a valid request id`() async throws {
        let fixture = try await TwoTenantFixture()
        let good = fixture.ada.envelope([fixture.ada.create()])
        for id in ["a", "A.b_c-9", String(repeating: "x", count: 128), UUID().uuidString] {
            let headers = [("X-Request-ID", id)]
            let replies = [
                try await fixture.ada.get("/v1/changes", headers: headers),
                try await fixture.ada.post("/v1/mutations", good, headers: headers),
                try await fixture.ada.post("/v1/mutations", "{", headers: headers),
                try await fixture.ada.get("/nowhere", headers: headers),
                try await send(.GET, fixture.gateway.address + "/v1/changes", headers: headers),
                try await send(.PUT, fixture.gateway.address + "/v1/changes", headers: headers),
                try await send(.HEAD, fixture.gateway.address + "/v1/changes", headers: headers),
                try await send(.GET, fixture.gateway.operations + "/livez", headers: headers),
                try await send(.GET, fixture.gateway.operations + "/metrics", headers: headers),
                try await fixture.operate(.GET, fixture.admin, headers: headers),
                try await fixture.operate(.DELETE, fixture.admin + "/users/\(UUID().lowercased)", headers: headers),
            ]
            for reply in replies {
                #expect(reply.header("x-request-id") == [id])
                if reply.status >= 400, !reply.body.isEmpty { #expect(reply.json?["request_id"]?.string == id) }
            }
        }
    }

    @Test func `replaces an invalid request id with a generated one`() async throws {
        let fixture = try await TwoTenantFixture()
        var seen: Set<String> = []
        let given = ["", " ", "a b", "a,b", "<x>", "é", "a/b", "a\"b", String(repeating: "x", count: 129)]
        for headers in given.map({ [("X-Request-ID", $0)] }) + [[], [("X-Request-ID", "a"), ("X-Request-ID", "b")]] {
            let reply = try await fixture.ada.get("/v1/changes?x=1", headers: headers)
            let id = try #require(reply.header("x-request-id").first)
            #expect(reply.header("x-request-id").count == 1)
            #expect(UUID(uuidString: id)?.lowercased == id)
            #expect(reply.json?["request_id"]?.string == id)
            #expect(seen.insert(id).inserted)
        }
    }

    @Test func `accepts any traceparent value`() async throws {
        let fixture = try await TwoTenantFixture()
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        for value in [trace, trace.uppercased(), "00-0-0-00", "", "x", String(repeating: "0", count: 5_000)] {
            let reply = try await fixture.ada.get("/v1/changes", headers: [("traceparent", value)])
            #expect(reply.status == 200)
            let operations = fixture.gateway.operations + "/livez"
            #expect(try await send(.GET, operations, headers: [("traceparent", value)]).status == 200)
        }
    }

    @Test func `every response has a date, a length and one content type`() async throws {
        let fixture = try await TwoTenantFixture()
        let replies = [
            try await fixture.ada.get("/v1/changes"), try await fixture.ada.push([fixture.ada.create()]),
            try await fixture.ada.get("/nowhere"), try await send(.GET, fixture.gateway.address + "/v1/changes"),
        ]
        for reply in replies {
            #expect(reply.header("date") == ["Wed, 18 Nov 2026 11:06:40 GMT"])
            #expect(reply.header("content-length") == ["\(reply.body.count)"])
            #expect(reply.header("content-type").count == 1)
            #expect(reply.header("server").isEmpty)
            #expect(reply.header("transfer-encoding").isEmpty)
        }
        fixture.gateway.clock.advance(seconds: 1)
        #expect(try await fixture.ada.get("/v1/changes").header("date") == ["Wed, 18 Nov 2026 11:06:41 GMT"])
    }

    @Test func `a response without a body has no content type`() async throws {
        let fixture = try await TwoTenantFixture()
        let path = fixture.admin + "/users/\(fixture.ada.user.lowercased)"
        for (method, status) in [(HTTPMethod.PUT, 201), (.PUT, 200), (.DELETE, 204)] {
            let reply = try await fixture.operate(method, path)
            #expect(reply.status == status)
            #expect(reply.body.isEmpty)
            #expect(reply.header("content-type").isEmpty)
            #expect(reply.header("content-length") == (status == 204 ? [] : ["0"]))
        }
    }
}
