import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import StandardWebhooks
import SyncHTTP
import SyncModel
import TestSupport
import Testing

/// Bodies of unauthenticated senders do not use memory that other senders need.
@Suite struct UnverifiedBodyTests {
    private static let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    private static let settings = """
        {"kind": "webhook", "secret": "\(secret)", "settings": {"mapping": {"rules": [
            {"operation": "upsert", "entity_type": "contact", "id": "/id", "version": "/version", "document": ""}]}}}
        """

    private func path(_ fixture: TwoTenantFixture) -> String {
        "/v1/sources/\(fixture.ada.organization.lowercased)/crm"
    }

    private func send(_ fixture: TwoTenantFixture, _ body: String, id: String) async throws -> Reply {
        let signer = WebhookSigner(secrets: [WebhookSecret(Self.secret)].compactMap(\.self), key: nil)
        let headers = try signer.headers(id: id, timestamp: fixture.gateway.clock.now.seconds, body: Array(body.utf8))
        return try await GatewayTests.send(
            .POST,
            fixture.gateway.address + path(fixture),
            headers: headers.map { ($0.name, $0.value) },
            body: Array(body.utf8)
        )
    }

    /// Connections that each have sent a part of a body with an announced length of 1 MiB.
    private func trickle(_ count: Int, _ fixture: TwoTenantFixture, to path: String) async throws -> [RawConnection] {
        let head = """
            POST \(path) HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1048576\r\n\
            webhook-id: msg_x\r\nwebhook-timestamp: \(fixture.gateway.clock.now.seconds)\r\nwebhook-signature: v1,AAAA\r\n\r\n
            """
        var connections: [RawConnection] = []
        for _ in 0..<count {
            let connection = try RawConnection(port: fixture.gateway.port)
            await connection.send(head + String(repeating: " ", count: 60_000))
            connections.append(connection)
        }
        return connections
    }

    @Test func `accepts messages of a source despite 200 slow bodies without a secret`() async throws {
        let fixture = try await TwoTenantFixture {
            $0.heldBodyBytes = 4_194_304
            $0.unverifiedBodies.bytes = 4_194_304
            $0.unverifiedBodies.grace = .seconds(600)
            $0.unverifiedBodies.timeout = .seconds(600)
            $0.bodyTimeout = .seconds(600)
        }
        #expect(try await fixture.operate(.PUT, "\(fixture.admin)/sources/crm", Self.settings).status == 201)
        let connections = try await trickle(200, fixture, to: path(fixture))
        let text = String(repeating: "x", count: 200_000)
        for number in 0..<16 {
            let large = number % 2 == 0 ? text : ""
            let reply = try await send(
                fixture,
                #"{"id":\#(number),"version":1,"text":"\#(large)"}"#,
                id: "msg_\(number)"
            )
            #expect(reply.status == 200, "\(reply.text)")
        }
        // phones and programs of the organization have their full memory share
        let padded = fixture.ada.envelope([fixture.ada.create("task")]) + String(repeating: " ", count: 1_000_000)
        #expect(try await fixture.ada.post("/v1/mutations", padded).status == 200)
        try await fixture.reaches("sluice_http_held_body_bytes 0")
        for connection in connections { connection.reset() }
        try await fixture.reaches("sluice_http_unverified_body_bytes 0")
    }

    /// The number of bodies that were cut off or refused because other bodies needed their memory.
    private func rejections(_ fixture: TwoTenantFixture) async throws -> Int {
        let names = [
            #"sluice_http_clients_cut_off_total{reason="late_body"}"#,
            #"sluice_http_overloads_total{budget="unverified"}"#,
        ]
        return try await fixture.metrics().reduce(0) { sum, line in
            let parts = line.split(separator: " ")
            guard parts.count == 2, names.contains(String(parts[0])) else { return sum }
            return sum + (Int(parts[1]) ?? 0)
        }
    }

    @Test func `200 newer bodies for unknown sources do not cut off a message`() async throws {
        let fixture = try await TwoTenantFixture {
            $0.unverifiedBodies.bytes = 4_194_304
            $0.unverifiedBodies.grace = .seconds(600)
            $0.unverifiedBodies.timeout = .seconds(600)
            $0.bodyTimeout = .seconds(600)
        }
        #expect(try await fixture.operate(.PUT, "\(fixture.admin)/sources/crm", Self.settings).status == 201)
        let body = #"{"id":1,"version":1,"text":"\#(String(repeating: "x", count: 200_000))"}"#
        let signer = WebhookSigner(secrets: [WebhookSecret(Self.secret)].compactMap(\.self), key: nil)
        let now = fixture.gateway.clock.now.seconds
        let signed = try signer.headers(id: "msg_1", timestamp: now, body: Array(body.utf8))
        let fields = signed.map { "\($0.name): \($0.value)\r\n" }.joined()
        let genuine = try RawConnection(port: fixture.gateway.port)
        await genuine.send(
            "POST \(path(fixture)) HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                + "Content-Length: \(body.utf8.count)\r\n\(fields)\r\n\(body.prefix(100_000))"
        )
        try await fixture.reaches("sluice_http_unverified_body_bytes \(100_000 - 8_192)")
        var connections: [RawConnection] = []
        for number in 0..<200 {
            // a part of the names belongs to an organization that exists
            let organization = number % 2 == 0 ? UUID() : fixture.ada.organization
            connections += try await trickle(1, fixture, to: "/v1/sources/\(organization.lowercased)/s\(number)")
        }
        // the share of unknown sources, 1 MiB, is enough for 20 of these bodies
        try await waitUntil("180 bodies are rejected", every: .milliseconds(20)) {
            try await rejections(fixture) >= 180
        }
        await genuine.send(String(body.dropFirst(100_000)))
        let reply = try await genuine.reply()
        #expect(reply.status == 200, "\(reply.text)")
        for connection in connections { connection.reset() }
        try await fixture.reaches("sluice_http_unverified_body_bytes 0")
    }

    @Test func `answers 408 to a slow body before its verification`() async throws {
        let fixture = try await TwoTenantFixture {
            $0.unverifiedBodies.grace = .zero
            $0.unverifiedBodies.rate = 1_000_000_000
        }
        for path in [path(fixture), "/v1/sources/nobody/none"] {
            let connection = try #require(try await trickle(1, fixture, to: path).first)
            let reply = try await connection.reply()
            #expect(reply.status == 408, "\(reply.text)")
            #expect(await connection.ends())
        }
        try await fixture.reaches(#"sluice_http_clients_cut_off_total{reason="late_body"} 2"#)
        try await fixture.reaches("sluice_http_unverified_body_bytes 0")
    }

    @Test func `ends a slow sign-in while health checks are answered`() async throws {
        let fixture = try await TwoTenantFixture {
            $0.unverifiedBodies.grace = .zero
            $0.unverifiedBodies.rate = 1_000_000_000
        }
        let port = try #require(fixture.gateway.operations.split(separator: ":").last.flatMap { Int($0) })
        let connection = try RawConnection(port: port)
        await connection.send(
            "POST /console/session HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n{"
        )
        #expect(try await GatewayTests.send(.GET, fixture.gateway.operations + "/livez").status == 200)
        #expect(try await connection.reply().status == 408)
    }
}
