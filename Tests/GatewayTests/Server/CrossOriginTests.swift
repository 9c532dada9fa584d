import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncModel
import Testing

@testable import OperatorsFeature
@testable import SyncHTTP

/// Requests and responses that web pages of other origins may use (WHATWG Fetch, the CORS protocol).
@Suite struct CrossOriginTests {
    private static let page = "https://app.example.org"

    private static func open(_ configuration: inout HTTPConfiguration) {
        configuration.allowedOrigins = AllowedOrigins(parsing: "\(page) https://*.example.com")
    }

    private static func preflight(_ method: String, from origin: String) -> [(String, String)] {
        [
            ("Origin", origin), ("Access-Control-Request-Method", method),
            ("Access-Control-Request-Headers", "authorization"),
        ]
    }

    @Test func `every path answers a preflight without a token`() async throws {
        let gateway = try await LiveGateway.start(configure: Self.open)
        let routes = try Contract().routes(ofOperations: false).map { $0.split(separator: " ").map(String.init) }
        for (method, path) in routes.map({ ($0[0], $0[1]) }) {
            let url = gateway.address + path.replacing(/\{[^}]*\}/, with: UUID().lowercased)
            let reply = try await send(.OPTIONS, url, headers: Self.preflight(method, from: Self.page))
            #expect(reply.status == 204 && reply.body.isEmpty, "\(path)")
            #expect(reply.header("access-control-allow-origin") == [Self.page])
            let methods = reply.header("access-control-allow-methods").first?.split(separator: ", ") ?? []
            #expect(methods.contains(method[...]), "\(path)")
            let fields = reply.header("access-control-allow-headers").first?.lowercased() ?? ""
            for field in ["authorization", "content-type", "prefer", "last-event-id", "traceparent"] {
                #expect(fields.contains(field))
            }
            #expect(reply.header("access-control-max-age") == ["7200"])
            #expect(reply.header("access-control-allow-credentials") == [], "requests have tokens and no cookies")
            #expect(reply.header("vary") == ["Origin"])
        }
        let nowhere = try await send(
            .OPTIONS,
            gateway.address + "/v1/x",
            headers: Self.preflight("GET", from: Self.page)
        )
        #expect(nowhere.status == 404)
    }

    @Test func `allowed origins can read responses and problems`() async throws {
        let fixture = try await TwoTenantFixture(configure: Self.open)
        let good = fixture.ada.envelope([fixture.ada.create()])
        for origin in [Self.page, "https://a.example.com"] {
            let headers = [("Origin", origin)]
            let replies = [
                try await fixture.ada.post("/v1/mutations", good, headers: headers),
                try await fixture.ada.post("/v1/mutations", "{", headers: headers),
                try await fixture.ada.get("/v1/changes", headers: headers),
                try await fixture.ada.get("/nowhere", headers: headers),
                try await send(.GET, fixture.gateway.address + "/v1/changes", headers: headers),
                try await send(.PUT, fixture.gateway.address + "/v1/changes", headers: headers),
                try await send(.GET, fixture.gateway.address + "/openapi.json", headers: headers),
            ]
            #expect(replies.map(\.status) == [200, 400, 200, 404, 401, 405, 200])
            for reply in replies {
                #expect(reply.header("access-control-allow-origin") == [origin])
                #expect(reply.header("access-control-expose-headers").first?.contains("X-Request-ID") == true)
                #expect(reply.header("vary") == ["Origin"])
            }
        }
        let events = try await EventListener(
            fixture.gateway.address,
            token: fixture.ada.token,
            origin: Self.page
        )
        #expect(events.headers.first(name: "access-control-allow-origin") == Self.page)
        events.stop()
    }

    @Test func `other origins get no CORS headers and caches get Vary`() async throws {
        let fixture = try await TwoTenantFixture(configure: Self.open)
        for origin in ["https://evil.example", "null", "https://example.com", Self.page + ".evil.com"] {
            let preflight = try await send(
                .OPTIONS,
                fixture.gateway.address + "/v1/mutations",
                headers: Self.preflight("POST", from: origin)
            )
            #expect(preflight.status == 204)
            for reply in [preflight, try await fixture.ada.get("/v1/changes", headers: [("Origin", origin)])] {
                #expect(reply.headers.allSatisfy { !$0.name.lowercased().hasPrefix("access-control-") })
                #expect(reply.header("vary") == ["Origin"])
            }
        }
        // a request without a page's origin, and an `OPTIONS` request that is not a preflight
        let reply = try await fixture.ada.get("/v1/changes")
        #expect(reply.status == 200 && reply.header("vary") == ["Origin"])
        let options = try await send(.OPTIONS, fixture.gateway.address + "/v1/mutations")
        #expect(options.status == 204 && options.header("allow") == ["POST, GET, HEAD, OPTIONS"])
    }

    @Test func `the operations listener and a gateway without the setting allow no origin`() async throws {
        let gateway = try await LiveGateway.start(configure: Self.open)
        let headers = Self.preflight("GET", from: Self.page)
        let operations = try await send(.OPTIONS, gateway.operations + "/livez", headers: headers)
        #expect(operations.status == 405 && operations.header("vary") == [])
        let fixture = try await TwoTenantFixture()
        let closed = try await send(.OPTIONS, fixture.gateway.address + "/v1/changes", headers: headers)
        #expect(closed.status == 405 && closed.header("allow") == ["GET, HEAD"])
        let reply = try await fixture.ada.get("/v1/changes", headers: [("Origin", Self.page)])
        for reply in [closed, reply] {
            #expect(reply.headers.allSatisfy { !$0.name.lowercased().hasPrefix("access-control-") })
            #expect(reply.header("vary") == [])
        }
    }
}
