import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncHTTP
import SyncModel
import Testing

/// Clients that are slow, disconnect, or pipeline requests.
@Suite struct ConnectionTests {
    /// The worker's next push, its head and its body.
    private static func push(_ worker: SyncWorker, _ fields: String = "") -> (head: String, body: String) {
        let body = worker.envelope([worker.create()])
        return (worker.pushHead("Content-Length: \(body.utf8.count)\r\n\(fields)"), body)
    }

    /// A gateway with short time-outs on a scene's database, separate from the scene's own gateway.
    private static func impatient(
        _ fixture: TwoTenantFixture,
        _ configure: (inout HTTPConfiguration) -> Void
    ) async throws -> LiveGateway {
        try await LiveGateway.start(on: fixture.gateway.database, configure: configure)
    }

    @Test func `times out a body that does not arrive in time`() async throws {
        let fixture = try await TwoTenantFixture()
        let gateway = try await Self.impatient(fixture) { $0.bodyTimeout = .milliseconds(300) }
        let (head, body) = Self.push(fixture.ada)
        try await fixture.whileNothingChanges {
            for part in ["", String(body.prefix(20)), String(body.dropLast())] {
                let connection = try RawConnection(port: gateway.port)
                await connection.send(head + part)
                let reply = try await connection.reply()
                expectProblem(reply, .requestTimeout, errors: [])
                #expect(reply.header("connection") == ["close"])
                connection.finishSending()
                #expect(await connection.rest().isEmpty)
            }
            let chunked = try RawConnection(port: gateway.port)
            await chunked.send(fixture.ada.pushHead("Transfer-Encoding: chunked\r\n") + "2\r\n{ \r\n")
            expectProblem(try await chunked.reply(), .requestTimeout, errors: [])
        }
    }

    @Test func `closes the connection if a request head does not arrive in time`() async throws {
        let fixture = try await TwoTenantFixture()
        let gateway = try await Self.impatient(fixture) { $0.idleTimeout = .seconds(1) }
        for part in ["", "GET ", "GET /v1/changes HTTP/1.1\r\nHost: x\r\n"] {
            let connection = try RawConnection(port: gateway.port)
            await connection.send(part)
            #expect(await connection.rest().isEmpty)
        }
        let (head, body) = Self.push(fixture.ada)
        let connection = try RawConnection(port: gateway.port)
        await connection.send(head + body)
        #expect(try await connection.reply().statuses == ["succeeded"])
    }

    @Test func `a client that disconnects in the middle of a body pushes nothing`() async throws {
        let fixture = try await TwoTenantFixture()
        try await fixture.whileNothingChanges {
            for byReset in [true, false] {
                let (head, body) = Self.push(fixture.ada)
                let connection = try RawConnection(port: fixture.gateway.port)
                await connection.send(head + body.dropLast())
                try await Self.waitUntilHeld(fixture, bytes: body.utf8.count - 1)
                if byReset {
                    connection.reset()
                } else {
                    connection.finishSending()
                    _ = await connection.rest()
                }
                try await Self.waitUntilHeld(fixture, bytes: 0)
            }
        }
    }

    @Test func `commits a complete push although its client has disconnected`() async throws {
        let fixture = try await TwoTenantFixture()
        let draft = fixture.ada.create()
        let body = fixture.ada.envelope([draft])
        let connection = try RawConnection(port: fixture.gateway.port)
        // the client closes its sending side directly after the push
        await connection.send(fixture.ada.pushHead("Content-Length: \(body.utf8.count)\r\n") + body)
        connection.finishSending()
        _ = await connection.rest()
        let reply = try await fixture.ada.push([draft])
        #expect(reply.statuses == ["succeeded"])
        #expect(reply.results[0]["replayed"]?.bool == true)
    }

    @Test func `answers pipelined requests in order`() async throws {
        let fixture = try await TwoTenantFixture()
        let pushes = (0..<5).map { Self.push(fixture.ada, $0 < 4 ? "" : "Connection: close\r\n") }
        let connection = try RawConnection(port: fixture.gateway.port)
        await connection.send(pushes.map { $0.head + $0.body }.joined())
        for number in 1...5 {
            let reply = try await connection.reply()
            #expect(reply.status == 200)
            #expect(reply.json?["accepted_sequence"]?.int64 == Int64(number))
            #expect(reply.header("connection") == (number < 5 ? [] : ["close"]))
        }
        #expect(await connection.rest().isEmpty)
    }

    @Test func `answers requests pipelined after a push once the push is answered`() async throws {
        let fixture = try await TwoTenantFixture()
        let get = "GET /v1/nothing HTTP/1.1\r\nHost: x\r\n\r\n"
        // the first push with a token may be handled differently from the next push
        for _ in 0..<2 {
            let (head, body) = Self.push(fixture.ada)
            let connection = try RawConnection(port: fixture.gateway.port)
            await connection.send(head + body + get + get)
            #expect(try await connection.reply().statuses == ["succeeded"])
            #expect(try await connection.reply().status == 404)
            #expect(try await connection.reply().status == 404)
        }
        for _ in 0..<2 {
            let (head, body) = Self.push(fixture.ada)
            let connection = try RawConnection(port: fixture.gateway.port)
            await connection.send(head + body + "nonsense\r\n\r\n")
            let reply = try await connection.reply()
            #expect(reply.statuses == ["succeeded"])
            #expect(reply.header("connection") == ["close"])
            #expect(await connection.rest().isEmpty)
        }
    }

    @Test func `answers a client that has closed its sending side`() async throws {
        let fixture = try await TwoTenantFixture()
        for _ in 0..<3 {
            let (head, body) = Self.push(fixture.ada)
            let connection = try RawConnection(port: fixture.gateway.port)
            await connection.send(head + body)
            connection.finishSending()
            #expect(try await connection.reply().statuses == ["succeeded"])
            #expect(await connection.rest().isEmpty)
        }
    }

    @Test func `keeps or closes a connection as the client requests`() async throws {
        let fixture = try await TwoTenantFixture()
        let connection = try RawConnection(port: fixture.gateway.port)
        for _ in 0..<2 {
            let (head, body) = Self.push(fixture.ada)
            await connection.send(head + body)
            let reply = try await connection.reply()
            #expect(reply.status == 200)
            #expect(reply.header("connection").isEmpty)
        }
        // a rejection whose body was read keeps the connection open
        await connection.send(fixture.ada.pushHead("Content-Length: 1\r\n") + "{")
        #expect(try await connection.reply().status == 400)
        let (head, body) = Self.push(fixture.ada, "Connection: close\r\n")
        await connection.send(head + body)
        let last = try await connection.reply()
        #expect(last.status == 200)
        #expect(last.header("connection") == ["close"])
        #expect(await connection.rest().isEmpty)
    }

    @Test func `skips a body that the request does not need`() async throws {
        let fixture = try await TwoTenantFixture()
        let connection = try RawConnection(port: fixture.gateway.port)
        let head = "GET /v1/changes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(fixture.ada.token)\r\n"
        for _ in 0..<2 {
            await connection.send(head + "Content-Length: 7\r\n\r\nGET / \n")
            #expect(try await connection.reply().status == 200)
        }
        let (push, body) = Self.push(fixture.ada)
        await connection.send(push + body)
        #expect(try await connection.reply().statuses == ["succeeded"])
        try await fixture.whileNothingChanges {
            let bare = try RawConnection(port: fixture.gateway.port)
            await bare.send(fixture.ada.pushHead(""))
            expectProblem(try await bare.reply(), .invalidJSON, errors: [])
        }
    }

    @Test func `sends 100 Continue only to authorized clients`() async throws {
        let fixture = try await TwoTenantFixture()
        let (head, body) = Self.push(fixture.ada, "Expect: 100-continue\r\n")
        let connection = try RawConnection(port: fixture.gateway.port)
        await connection.send(head)
        #expect(try await connection.reply().status == 100)
        await connection.send(body)
        #expect(try await connection.reply().statuses == ["succeeded"])

        try await fixture.whileNothingChanges {
            let refused: [(String, ProblemCode)] = [
                (head.replacingOccurrences(of: "Bearer ", with: "Bearer x"), .unauthorized),
                (head.replacingOccurrences(of: "application/json", with: "text/plain"), .unsupportedMediaType),
                (fixture.ada.pushHead("Expect: 100-continue\r\nContent-Length: 99999999\r\n"), .payloadTooLarge),
            ]
            for (head, code) in refused {
                let connection = try RawConnection(port: fixture.gateway.port)
                await connection.send(head)
                expectProblem(try await connection.reply(), code)
            }
        }
    }

    @Test func `temporarily rejects bodies that exceed the memory limit`() async throws {
        let fixture = try await TwoTenantFixture { $0.heldBodyBytes = 1_000 }
        let (head, body) = Self.push(fixture.ada)
        let padded = fixture.bob.envelope([fixture.bob.create()]) + String(repeating: " ", count: 600)
        let slow = try RawConnection(port: fixture.gateway.port)
        await slow.send(head + body.dropLast())
        try await Self.waitUntilHeld(fixture, bytes: body.utf8.count - 1)
        let tables = try await fixture.tables()
        let refused = try await fixture.bob.post("/v1/mutations", padded)
        expectProblem(refused, .overloaded, errors: [])
        #expect(refused.header("retry-after") == ["1"])
        #expect(try await fixture.tables() == tables)
        await slow.send("}")
        #expect(try await slow.reply().statuses == ["succeeded"])
        try await Self.waitUntilHeld(fixture, bytes: 0)
        #expect(try await fixture.bob.post("/v1/mutations", padded).statuses == ["succeeded"])
    }

    /// Polls until the gateway holds this many bytes of request bodies.
    private static func waitUntilHeld(_ fixture: TwoTenantFixture, bytes: Int) async throws {
        try await fixture.reaches("sluice_http_held_body_bytes \(bytes)")
    }
}
