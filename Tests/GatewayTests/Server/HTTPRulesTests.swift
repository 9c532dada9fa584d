import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncModel
import Testing

/// HTTP's own rules for requests and responses.
@Suite struct HTTPRulesTests {
    // MARK: - Host

    @Test func `a request must have exactly one Host header`() async throws {
        let fixture = try await TwoTenantFixture()
        let authorization = "Authorization: Bearer \(fixture.ada.token)\r\n"
        let hidden = "GET /v1/changes HTTP/1.1\r\nHost: x\r\n\(authorization)\r\n"
        for hosts in ["", "Host: x\r\nHost: x\r\n", "Host: x\r\nhost: y\r\n", "Host: x\r\n\(authorization)HOST:\r\n"] {
            let connection = try RawConnection(port: fixture.gateway.port)
            await connection.send("GET /v1/changes HTTP/1.1\r\n\(hosts)\(authorization)\r\n" + hidden)
            let reply = try await connection.reply()
            expectProblem(reply, .invalidRequest, errors: [])
            #expect(reply.header("connection") == ["close"], "\(hosts)")
            connection.finishSending()
            #expect(await connection.rest().isEmpty, "\(hosts)")
        }
        for (version, hosts) in [("1.0", ""), ("1.0", "Host: x\r\n"), ("1.1", "Host:\r\n"), ("1.1", "hOST: x:1\r\n")] {
            let connection = try RawConnection(port: fixture.gateway.port)
            await connection.send("GET /v1/changes HTTP/\(version)\r\n\(hosts)\(authorization)\r\n")
            #expect(try await connection.reply().status == 200, "\(version) \(hosts)")
        }
    }

    @Test func `checks later requests on a connection as well`() async throws {
        let fixture = try await TwoTenantFixture()
        let connection = try RawConnection(port: fixture.gateway.port)
        await connection.send("GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(try await connection.reply().status == 200)
        await connection.send("GET /openapi.json HTTP/1.1\r\n\r\n")
        expectProblem(try await connection.reply(), .invalidRequest, errors: [])
        #expect(await connection.ends())
    }

    // MARK: - Transfer codings

    /// The gateway rejects transfer codings that it does not decode, and all transfer codings on HTTP/1.0.
    @Test func `a body must be chunked or have a length`() async throws {
        let fixture = try await TwoTenantFixture()
        let body = fixture.ada.envelope([fixture.ada.create()])
        let chunked = "\(String(body.utf8.count, radix: 16))\r\n\(body)\r\n0\r\n\r\n"
        func push(_ version: String, _ codings: [String]) async throws -> Reply {
            let connection = try RawConnection(port: fixture.gateway.port)
            let head = fixture.ada.pushHead(codings.map { "Transfer-Encoding: \($0)\r\n" }.joined())
            await connection.send(head.replacing("HTTP/1.1", with: "HTTP/\(version)") + chunked)
            return try await connection.reply()
        }
        let refused = [
            ("1.1", ["gzip, chunked"]), ("1.1", ["x, chunked"]), ("1.1", ["gzip", "chunked"]), ("1.0", ["chunked"]),
            ("1.1", ["chun\u{212a}ed"]),
        ]
        for (version, codings) in refused {
            let reply = try await push(version, codings)
            #expect(reply.status == 400, "\(version) \(codings)")
        }
        #expect(try await push("1.1", ["Chunked"]).status == 200)
    }

    // MARK: - Connection

    @Test(arguments: ["close", "Close", "keep-alive, close", "close,keep-alive", "upgrade , CLOSE"])
    func `closes a connection on request`(value: String) async throws {
        let fixture = try await TwoTenantFixture()
        let connection = try RawConnection(port: fixture.gateway.port)
        await connection.send("GET /openapi.json HTTP/1.1\r\nHost: x\r\nConnection: \(value)\r\n\r\n")
        let reply = try await connection.reply()
        #expect(reply.status == 200)
        #expect(reply.header("connection") == ["close"])
        #expect(await connection.ends())
    }

    @Test func `keeps a connection open otherwise`() async throws {
        let fixture = try await TwoTenantFixture()
        let connection = try RawConnection(port: fixture.gateway.port)
        for _ in 0..<2 {
            await connection.send("GET /openapi.json HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, closed\r\n\r\n")
            #expect(try await connection.reply().status == 200)
        }
    }

    // MARK: - HEAD

    @Test func `HEAD returns the same headers as GET`() async throws {
        let fixture = try await TwoTenantFixture()
        let draft = fixture.ada.create()
        _ = try await fixture.ada.push([draft])
        let paths = [
            "/v1/mutations", "/v1/mutations?limit=1", "/v1/mutations/\(draft.id)", "/v1/backlog", "/v1/id-mappings",
            "/v1/changes", "/v1/changes?wait=1", "/openapi.json", "/.well-known/jwks.json",
            // problems have bodies, too
            "/v1/mutations/\(UUID().lowercased)", "/v1/changes?x=1", "/v1/changes?since=x", "/nowhere",
        ]
        for path in paths {
            let connection = try RawConnection(port: fixture.gateway.port)
            let fields = "Host: x\r\nX-Request-ID: same\r\nAuthorization: Bearer \(fixture.ada.token)\r\n\r\n"
            await connection.send("GET \(path) HTTP/1.1\r\n" + fields)
            let answer = try await connection.reply()
            await connection.send("HEAD \(path) HTTP/1.1\r\n" + fields)
            let head = try await connection.head()
            #expect(head.status == answer.status, "\(path)")
            #expect(head.header("content-length") == ["\(answer.body.count)"], "\(path)")
            #expect(head.header("content-type") == answer.header("content-type"), "\(path)")
            #expect(head.header("etag") == answer.header("etag"), "\(path)")
            // no bytes follow the response
            await connection.send("GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n")
            #expect(try await connection.reply().status == 200, "\(path)")
        }
    }

    @Test func `HEAD of the event stream returns no length and starts no stream`() async throws {
        let fixture = try await TwoTenantFixture()
        let connection = try RawConnection(port: fixture.gateway.port)
        await connection.send(
            "HEAD /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(fixture.ada.token)\r\n\r\n"
        )
        let head = try await connection.head()
        #expect(head.status == 200)
        #expect(head.header("content-type") == ["text/event-stream"])
        #expect(head.header("content-length").isEmpty)
        #expect(head.header("transfer-encoding").isEmpty)
        #expect(await connection.ends())
        #expect(try await fixture.metrics().contains("sluice_event_streams 0"))
    }

    // MARK: - Content and parameters

    @Test(arguments: [
        "application/json; charset=latin1", "application/json;profile=\"https://x/y,z\"", "Application/Json ; a=b",
    ])
    func `accepts JSON with any media type parameter`(type: String) async throws {
        let fixture = try await TwoTenantFixture()
        let body = fixture.ada.envelope([fixture.ada.create()])
        let reply = try await fixture.ada.post("/v1/mutations", body, headers: [("Content-Type", type)])
        #expect(reply.statuses == ["succeeded"])
    }

    @Test func `empty query parameters count as absent`() async throws {
        let fixture = try await TwoTenantFixture()
        _ = try await fixture.ada.push([fixture.ada.create()])
        for path in [
            "/v1/changes?since=&limit=&entity_type=&wait=", "/v1/changes?since&limit", "/v1/changes?",
            "/v1/mutations?status=&device_id=&entity_type=&limit=&cursor=", "/v1/id-mappings?since=&status=&limit=",
        ] {
            #expect(try await fixture.ada.get(path).status == 200, "\(path)")
        }
    }

    // MARK: - Look-ups

    @Test func `a lookup of no ids returns no mappings`() async throws {
        let fixture = try await TwoTenantFixture()
        let reply = try await fixture.ada.post("/v1/id-mappings/lookup", #"{"client_ids":[]}"#)
        #expect(reply.status == 200)
        #expect(reply.text == #"{"id_mappings":[]}"#)
    }

    @Test func `looks up ids in the device id space`() async throws {
        let fixture = try await TwoTenantFixture()
        let type = fixture.admin + "/entity-types/note"
        #expect(try await fixture.operate(.PUT, type, #"{"id_space":"device"}"#).status == 201)
        func draft(_ worker: SyncWorker, _ number: Int) -> Draft {
            worker.draft("create", "note", ["local_id": "\(number)", "payload": #"{"title":"x"}"#])
        }
        let pushed = try await fixture.ada.push([draft(fixture.ada, 1), draft(fixture.ada, 2)])
        #expect(pushed.statuses == ["succeeded", "succeeded"])
        let ids = pushed.results.compactMap { $0["server_id"]?.string }
        func lookUp(_ worker: SyncWorker, _ device: UUID, _ numbers: String, type: String = "note") async throws
            -> String
        {
            let body = #"{"client_ids":[\#(numbers)],"entity_type":"\#(type)","device_id":\#(device.quoted)}"#
            let reply = try await worker.post("/v1/id-mappings/lookup", body)
            #expect(reply.status == 200, "\(reply.text)")
            return reply.text
        }
        func mapping(_ number: Int) -> String {
            #"{"entity_type":"note","client_id":\#(number),"server_id":"\#(ids[number - 1])","status":"resolved"}"#
        }
        let known = try await lookUp(fixture.ada, fixture.ada.device, "2, 1, 9, 2")
        #expect(known == #"{"id_mappings":[\#(mapping(1)),\#(mapping(2))]}"#)
        // numbers are specific to a device and to a user
        let none = #"{"id_mappings":[]}"#
        #expect(try await lookUp(fixture.ada, fixture.bob.device, "1,2") == none)
        #expect(try await lookUp(fixture.bob, fixture.ada.device, "1,2") == none)
        #expect(try await lookUp(fixture.eve, fixture.ada.device, "1,2") == none)
        #expect(try await lookUp(fixture.ada, fixture.ada.device, "1,2", type: "task") == none)
    }
}
