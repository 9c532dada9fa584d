import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncHTTP
import SyncModel
import Testing

/// Memory and connections that one organization uses do not reduce the share of another organization (product rule 16).
@Suite struct FairnessTests {
    private static let answers = "sluice_http_held_answer_bytes"
    private static let bodies = "sluice_http_held_body_bytes"

    private static func value(_ name: String, _ fixture: TwoTenantFixture) async throws -> Int {
        let line = try await fixture.metrics().first { $0.hasPrefix(name + " ") }
        return line.flatMap { Int($0.dropFirst(name.count + 1)) } ?? -1
    }

    @Test func `unread pages are limited in memory and other organizations are served`() async throws {
        let limit = 4_194_304
        let fixture = try await TwoTenantFixture {
            $0.heldAnswerBytes = limit
            $0.writeTimeout = .seconds(4)
        }
        let text = String(repeating: "x", count: 250_000)
        for _ in 0..<6 { _ = try await fixture.ada.push([fixture.ada.create("task", #"{"title":"\#(text)"}"#)]) }
        _ = try await fixture.eve.push([fixture.eve.create()])
        let request = "GET /v1/changes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(fixture.ada.token)\r\n\r\n"
        var unread: [RawConnection] = []
        for _ in 0..<30 {
            let connection = try RawConnection(port: fixture.gateway.port, receiveBuffer: 4_096)
            await connection.send(request)
            unread.append(connection)
        }
        let deadline = ContinuousClock.now + .seconds(60)
        var most = 0
        let cutOff = #"sluice_http_clients_cut_off_total{reason="unread"}"#
        while try await Self.value(cutOff, fixture) == 0 {
            most = max(most, try await Self.value(Self.answers, fixture))
            #expect(try await fixture.eve.get("/v1/changes").status == 200)
            try #require(.now < deadline, "no client is disconnected")
        }
        #expect(most > 1_000_000, "the pages are held in memory")
        #expect(most <= limit)
        for connection in unread { connection.reset() }
        try await fixture.reaches("\(Self.answers) 0")
        #expect(try await fixture.ada.get("/v1/changes").changes.count == 6)
    }

    @Test func `a push that waits for outcomes releases its body`() async throws {
        let fixture = try await TwoTenantFixture { $0.heldBodyBytes = 2_000 }
        let upstream = try await fixture.operate(
            .PUT,
            fixture.admin + "/upstream",
            #"{"base_url":"http://127.0.0.1:1"}"#
        )
        #expect(upstream.status == 201)
        #expect(
            try await fixture.operate(.PUT, fixture.admin + "/entity-types/visit", #"{"upstream":true}"#).status == 201
        )
        var draft = fixture.ada.create("visit")
        draft["endpoint"] = #""/visits""#
        let padded = fixture.ada.envelope([draft]) + String(repeating: " ", count: 1_000)
        let waiting = Task { try await fixture.ada.post("/v1/mutations", padded, headers: [("Prefer", "wait=60")]) }
        try await fixture.reaches("sluice_http_waits 1")
        #expect(try await Self.value(Self.bodies, fixture) == 0)
        let other = fixture.eve.envelope([fixture.eve.create()]) + String(repeating: " ", count: 1_000)
        #expect(try await fixture.eve.post("/v1/mutations", other).statuses == ["succeeded"])
        _ = try await fixture.ada.post("/v1/mutations/\(draft.id)/discard", "{}")
        let reply = try await waiting.value
        #expect(reply.status == 200)
        #expect(reply.statuses == ["discarded"])
        #expect(reply.results.first?["local_id"]?.string.map { "\"\($0)\"" } == draft["local_id"])
    }

    @Test func `a response after a wait names rejected mutations`() async throws {
        let fixture = try await TwoTenantFixture()
        let upstream = try await fixture.operate(
            .PUT,
            fixture.admin + "/upstream",
            #"{"base_url":"http://127.0.0.1:1"}"#
        )
        #expect(upstream.status == 201)
        var draft = fixture.ada.create("visit")
        draft["endpoint"] = #""/visits""#
        var wrong = fixture.ada.create("visit")
        wrong["endpoint"] = #""visits""#
        let reply = try await fixture.ada.push([draft, wrong], prefer: "wait=1")
        #expect(reply.statuses == ["pending", "rejected"])
        #expect(reply.results.last?["id"]?.string == wrong.id)
        #expect(reply.results.last?["sequence_number"]?.int64 == 2)
    }

    @Test func `waiting requests leave connections for other organizations`() async throws {
        let fixture = try await TwoTenantFixture { $0.maximumConnections = 12 }
        let path = "/v1/changes?wait=60"
        func wait(_ worker: SyncWorker) throws -> RawConnection { try RawConnection(port: fixture.gateway.port) }
        func head(_ worker: SyncWorker) -> String {
            "GET \(path) HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(worker.token)\r\n\r\n"
        }
        var held: [RawConnection] = []
        for count in 1...3 {
            let connection = try wait(fixture.ada)
            await connection.send(head(fixture.ada))
            held.append(connection)
            try await fixture.reaches("sluice_http_waits \(count)")
        }
        let refused = try wait(fixture.ada)
        await refused.send(head(fixture.ada))
        let reply = try await refused.reply()
        expectProblem(reply, .overloaded, errors: [])
        #expect(reply.header("retry-after") == ["1"])
        // requests that do not wait are answered, and so are requests of other organizations
        #expect(try await fixture.ada.get("/v1/changes").status == 200)
        let other = try wait(fixture.eve)
        await other.send(head(fixture.eve))
        try await fixture.reaches("sluice_http_waits 4")
        _ = try await fixture.eve.push([fixture.eve.create()])
        #expect(try await other.reply().changes.count == 1)
        for connection in held { connection.reset() }
        try await fixture.reaches("sluice_http_waits 0")
    }

    @Test func `listeners of one organization are closed in favor of another organization's listeners`() async throws {
        let fixture = try await TwoTenantFixture { $0.maximumListeners = 4 }
        func listen(_ worker: SyncWorker) async throws -> RawConnection {
            let connection = try RawConnection(port: fixture.gateway.port)
            await connection.send(
                "GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(worker.token)\r\n\r\n"
            )
            return connection
        }
        var crowd: [RawConnection] = []
        for count in 1...4 {
            crowd.append(try await listen(fixture.ada))
            try await fixture.reaches("sluice_event_streams \(count)")
        }
        expectProblem(try await listen(fixture.bob).reply(), .overloaded, errors: [])
        let guest = try await listen(fixture.eve)
        try await fixture.reaches(#"sluice_event_streams_ended_total{reason="superseded"} 1"#)
        try await fixture.reaches("sluice_event_streams 4")
        #expect(!guest.isBroken)
    }
}
