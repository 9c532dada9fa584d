import Foundation
import GatewaySupport
import NIOHTTP1
import OperatorsFeature
import SyncHTTP
import SyncModel
import TestSupport
import Testing

/// Hostile clients: slow on purpose, too numerous, or with requests that two servers interpret differently.
@Suite struct HostileClientTests {
    // MARK: - Slow clients

    @Test func `a trickling request head does not extend the idle time-out`() async throws {
        let fixture = try await TwoTenantFixture()
        let gateway = try await LiveGateway.start(on: fixture.gateway.database) { $0.idleTimeout = .seconds(1) }
        let head = "GET /v1/changes HTTP/1.1\r\nHost: x\r\n" + (0..<1_000).map { "X-\($0): y\r\n" }.joined()
        let connection = try RawConnection(port: gateway.port)
        let trickle = Task {
            for byte in head.utf8 where !Task.isCancelled {
                await connection.send([byte])
                try await Task.sleep(for: .milliseconds(50))
            }
        }
        let began = ContinuousClock.now
        #expect(await connection.rest().isEmpty)
        #expect(ContinuousClock.now - began < .seconds(60), "more bytes do not extend the time-out")
        trickle.cancel()
    }

    @Test func `a trickling body does not extend the body time-out`() async throws {
        let fixture = try await TwoTenantFixture()
        let gateway = try await LiveGateway.start(on: fixture.gateway.database) { $0.bodyTimeout = .seconds(1) }
        for chunked in [false, true] {
            let connection = try RawConnection(port: gateway.port)
            let field = chunked ? "Transfer-Encoding: chunked\r\n" : "Content-Length: 100000\r\n"
            await connection.send(fixture.ada.pushHead(field))
            let trickle = Task {
                while !Task.isCancelled {
                    await connection.send(chunked ? "1\r\n \r\n" : " ")
                    try await Task.sleep(for: .milliseconds(50))
                }
            }
            expectProblem(try await connection.reply(), .requestTimeout, errors: [])
            trickle.cancel()
        }
        try await fixture.expectServed()
    }

    @Test func `closes an idle kept-alive connection`() async throws {
        let fixture = try await TwoTenantFixture()
        let gateway = try await LiveGateway.start(on: fixture.gateway.database) { $0.idleTimeout = .seconds(1) }
        let connection = try RawConnection(port: gateway.port)
        await connection.send("GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(try await connection.reply().status == 200)
        #expect(await connection.ends())
    }

    @Test func `disconnects a client that does not read`() async throws {
        let fixture = try await TwoTenantFixture()
        let gateway = try await LiveGateway.start(on: fixture.gateway.database) { $0.writeTimeout = .seconds(1) }
        let connection = try RawConnection(port: gateway.port, receiveBuffer: 4_096)
        let request = "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
        // more responses than all buffers in between hold; until they are read, the gateway reads no further requests
        let sending = Task { await connection.send(String(repeating: request, count: 400)) }
        await sending.value
        try await waitUntil("it is disconnected", every: .milliseconds(20)) { connection.isBroken }
        try await fixture.expectServed()
    }

    // MARK: - Many clients

    @Test func `connections above the limit wait until another connection is closed`() async throws {
        let fixture = try await TwoTenantFixture()
        let gateway = try await LiveGateway.start(on: fixture.gateway.database) { $0.maximumConnections = 4 }
        let request = "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
        var held: [RawConnection] = []
        for _ in 0..<4 {
            let connection = try RawConnection(port: gateway.port)
            await connection.send(request)
            #expect(try await connection.reply().status == 200)
            held.append(connection)
        }
        // the system accepts the connection, but the gateway does not, so no response arrives
        let waiting = try RawConnection(port: gateway.port, timeout: 1)
        await waiting.send(request)
        await #expect(throws: RawConnection.Broken.self) { try await waiting.reply() }
        #expect(try await send(.GET, gateway.operations + "/livez").status == 200, "operations have a separate limit")
        held.removeFirst().reset()
        let next = try await waiting.reply(within: 290)
        #expect(next.status == 200)
    }

    // MARK: - Ambiguous requests

    /// Such requests are rejected as invalid HTTP. The connection closes after the response, so that following bytes
    /// are not read as a request.
    @Test func `rejects ambiguous framing and closes the connection`() async throws {
        let fixture = try await TwoTenantFixture()
        let hidden = "GET /v1/mutations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(fixture.ada.token)\r\n\r\n"
        let chunks = "0\r\n\r\n"
        let fields = [
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            "Content-Length: 5\r\nContent-Length: 0\r\n", "Content-Length: 5, 0\r\n", "Content-Length: +5\r\n",
            "Content-Length: 0x5\r\n", "Content-Length: 5 5\r\n", "Content-Length: \r\n",
            "Transfer-Encoding: chunked, identity\r\n", "Transfer-Encoding: xchunked\r\n",
            "Transfer-Encoding : chunked\r\n", "Transfer-Encoding:\u{b}chunked\r\n", "Content-Length : 5\r\n",
            "X: a\rContent-Length: 5\r\n", "X\0: a\r\n", "X: \u{1}\r\n", " X: folded first\r\n",
        ]
        try await fixture.whileNothingChanges {
            for field in fields {
                let connection = try RawConnection(port: fixture.gateway.port)
                await connection.send(fixture.ada.pushHead(field) + chunks + hidden)
                let reply = try await connection.reply()
                expectProblem(reply, .invalidRequest, errors: [])
                #expect(reply.header("connection") == ["close"], "\(field)")
                connection.finishSending()
                let rest = await connection.rest()
                #expect(rest.isEmpty, "\(field): \(String(decoding: rest, as: UTF8.self))")
            }
        }
    }

    @Test func `closes the connection after malformed chunks`() async throws {
        let fixture = try await TwoTenantFixture()
        let hidden = "GET /v1/mutations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(fixture.ada.token)\r\n\r\n"
        let bodies = [
            "2\r\n{}0\r\n\r\n", "2\r\n{}X0\r\n\r\n", "G\r\n", "0x2\r\n{}\r\n0\r\n\r\n", " 2\r\n{}\r\n0\r\n\r\n",
            "\r\n2\r\n{}\r\n",
            "2,2\r\n{}\r\n0\r\n\r\n", "-2\r\n{}\r\n0\r\n\r\n", "10000000000000002\r\n{}\r\n0\r\n\r\n",
        ]
        try await fixture.whileNothingChanges {
            for body in bodies {
                let connection = try RawConnection(port: fixture.gateway.port)
                await connection.send(fixture.ada.pushHead("Transfer-Encoding: chunked\r\n") + body + hidden)
                let reply = try await connection.reply()
                expectProblem(reply, .invalidRequest, errors: [])
                #expect(reply.header("connection") == ["close"], "\(body)")
                connection.finishSending()
                let rest = await connection.rest()
                #expect(rest.isEmpty, "\(body): \(String(decoding: rest, as: UTF8.self))")
            }
        }
    }

    @Test func `rejects request targets that are not paths`() async throws {
        let fixture = try await TwoTenantFixture()
        let requests = [
            "OPTIONS * HTTP/1.1", "CONNECT upstream.test:443 HTTP/1.1", "CONNECT /v1/changes HTTP/1.1",
            "GET * HTTP/1.1", "GET upstream.test:443 HTTP/1.1", "GET v1/changes HTTP/1.1", "GET ?x HTTP/1.1",
            "GET /v1/changes\0 HTTP/1.1", "GET /v1/\u{e9} HTTP/1.1", "GET /v1/chan\tges HTTP/1.1", "GET  HTTP/1.1",
            "GET /v1/changes/../changes HTTP/1.1", "GET \\v1\\changes HTTP/1.1", "GET /v1/changes HTTP/1.1 x",
            "GET /\(String(repeating: "a/", count: 7_000)) HTTP/1.1", "GET file:///etc/passwd HTTP/1.1",
            "GET http:///v1/changes HTTP/2.0", "GET /v1/changes HTTP/0.9", "GET /v1/changes", "TRACE / HTTP/1.1",
        ]
        try await fixture.whileNothingChanges {
            for request in requests {
                let connection = try RawConnection(port: fixture.gateway.port)
                let fields = "Host: x\r\nAuthorization: Bearer \(fixture.ada.token)\r\nConnection: close\r\n\r\n"
                await connection.send(request + "\r\n" + fields)
                let reply = try await connection.reply()
                let codes: [Int: ProblemCode] = [404: .notFound, 405: .methodNotAllowed]
                expectProblem(reply, codes[reply.status] ?? .invalidRequest, errors: [])
                #expect(!reply.text.contains(fixture.ada.token), "the answer does not repeat the token")
                #expect(await connection.rest().isEmpty, "\(request.prefix(50))")
            }
        }
    }

    @Test func `an absolute request target is equivalent to its path`() async throws {
        let fixture = try await TwoTenantFixture()
        for target in ["http://any.test/v1/changes?limit=1", "https://any.test:99/v1/changes?limit=1"] {
            let connection = try RawConnection(port: fixture.gateway.port)
            await connection.send(
                "GET \(target) HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(fixture.ada.token)\r\nConnection: close\r\n\r\n"
            )
            let reply = try await connection.reply()
            #expect(reply.status == 200, "\(reply.text)")
            #expect(reply.changes.isEmpty)
        }
    }

    @Test func `ignores upgrade requests`() async throws {
        let fixture = try await TwoTenantFixture()
        let offers = [
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n",
            "Connection: Upgrade\r\nUpgrade: TLS/1.0\r\n",
        ]
        for offer in offers {
            let connection = try RawConnection(port: fixture.gateway.port)
            await connection.send(
                "GET /v1/changes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(fixture.ada.token)\r\n\(offer)\r\n"
            )
            let reply = try await connection.reply()
            #expect(reply.status == 200, "\(offer): \(reply.text)")
            #expect(reply.header("upgrade").isEmpty)
        }
    }

    @Test func `answers an HTTP 1.0 client and closes its connection`() async throws {
        let fixture = try await TwoTenantFixture()
        for field in ["", "Connection: keep-alive\r\n"] {
            let connection = try RawConnection(port: fixture.gateway.port)
            let authorization = "Authorization: Bearer \(fixture.ada.token)\r\n"
            await connection.send("GET /v1/changes HTTP/1.0\r\n\(authorization)\(field)\r\n")
            let reply = try await connection.reply()
            #expect(reply.status == 200)
            #expect(reply.header("connection") == ["close"])
            #expect(await connection.ends())
        }
    }

    /// Proxies use this version by default.
    @Test func `accepts a push over HTTP 1.0`() async throws {
        let fixture = try await TwoTenantFixture()
        let body = fixture.ada.envelope([fixture.ada.create()])
        let head = fixture.ada.pushHead("Content-Length: \(body.utf8.count)\r\nConnection: keep-alive\r\n")
        let connection = try RawConnection(port: fixture.gateway.port)
        await connection.send(head.replacing("HTTP/1.1", with: "HTTP/1.0") + body)
        let reply = try await connection.reply()
        #expect(reply.statuses == ["succeeded"])
        #expect(reply.header("connection") == ["close"])
        #expect(await connection.ends())
    }
}
