import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncHTTP
import SyncModel
import Testing

/// Memory and connections held by one organization do not reduce the share of another (product rule 16).
@Suite struct FairnessTests {
    private static let answers = "sluice_http_held_answer_bytes"
    private static let bodies = "sluice_http_held_body_bytes"

    private static func value(_ name: String, _ scene: TwoTenantFixture) async throws -> Int {
        let line = try await scene.metrics().first { $0.hasPrefix(name + " ") }
        return line.flatMap { Int($0.dropFirst(name.count + 1)) } ?? -1
    }

    @Test func `unread pages are limited in memory and other organizations are served`() async throws {
        let limit = 4_194_304
        let scene = try await TwoTenantFixture {
            $0.heldAnswerBytes = limit
            $0.writeTimeout = .seconds(4)
        }
        let text = String(repeating: "x", count: 250_000)
        for _ in 0..<6 { _ = try await scene.ada.push([scene.ada.create("task", #"{"title":"\#(text)"}"#)]) }
        _ = try await scene.eve.push([scene.eve.create()])
        let request = "GET /v1/changes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(scene.ada.token)\r\n\r\n"
        var unread: [RawConnection] = []
        for _ in 0..<30 {
            let connection = try RawConnection(port: scene.gateway.port, receiveBuffer: 4_096)
            await connection.send(request)
            unread.append(connection)
        }
        let deadline = ContinuousClock.now + .seconds(60)
        var most = 0
        let cutOff = #"sluice_http_clients_cut_off_total{reason="unread"}"#
        while try await Self.value(cutOff, scene) == 0 {
            most = max(most, try await Self.value(Self.answers, scene))
            #expect(try await scene.eve.get("/v1/changes").status == 200)
            try #require(.now < deadline, "no client is disconnected")
        }
        #expect(most > 1_000_000, "they are held in memory")
        #expect(most <= limit)
        for connection in unread { connection.reset() }
        try await scene.reaches("\(Self.answers) 0")
        #expect(try await scene.ada.get("/v1/changes").changes.count == 6)
    }

    @Test func `a push that waits for outcomes releases its body`() async throws {
        let scene = try await TwoTenantFixture { $0.heldBodyBytes = 2_000 }
        let upstream = try await scene.operate(.PUT, scene.admin + "/upstream", #"{"base_url":"http://127.0.0.1:1"}"#)
        #expect(upstream.status == 201)
        #expect(try await scene.operate(.PUT, scene.admin + "/entity-types/visit", #"{"upstream":true}"#).status == 201)
        var draft = scene.ada.create("visit")
        draft["endpoint"] = #""/visits""#
        let padded = scene.ada.envelope([draft]) + String(repeating: " ", count: 1_000)
        let waiting = Task { try await scene.ada.post("/v1/mutations", padded, headers: [("Prefer", "wait=60")]) }
        try await scene.reaches("sluice_http_waits 1")
        #expect(try await Self.value(Self.bodies, scene) == 0)
        let other = scene.eve.envelope([scene.eve.create()]) + String(repeating: " ", count: 1_000)
        #expect(try await scene.eve.post("/v1/mutations", other).statuses == ["succeeded"])
        _ = try await scene.ada.post("/v1/mutations/\(draft.id)/discard", "{}")
        let reply = try await waiting.value
        #expect(reply.status == 200)
        #expect(reply.statuses == ["discarded"])
        #expect(reply.results.first?["local_id"]?.string.map { "\"\($0)\"" } == draft["local_id"])
    }

    @Test func `a response after a wait names rejected mutations`() async throws {
        let scene = try await TwoTenantFixture()
        let upstream = try await scene.operate(.PUT, scene.admin + "/upstream", #"{"base_url":"http://127.0.0.1:1"}"#)
        #expect(upstream.status == 201)
        var draft = scene.ada.create("visit")
        draft["endpoint"] = #""/visits""#
        var wrong = scene.ada.create("visit")
        wrong["endpoint"] = #""visits""#
        let reply = try await scene.ada.push([draft, wrong], prefer: "wait=1")
        #expect(reply.statuses == ["pending", "rejected"])
        #expect(reply.results.last?["id"]?.string == wrong.id)
        #expect(reply.results.last?["sequence_number"]?.int64 == 2)
    }

    @Test func `waiting requests leave connections for other organizations`() async throws {
        let scene = try await TwoTenantFixture { $0.maximumConnections = 12 }
        let path = "/v1/changes?wait=60"
        func wait(_ worker: SyncWorker) throws -> RawConnection { try RawConnection(port: scene.gateway.port) }
        func head(_ worker: SyncWorker) -> String {
            "GET \(path) HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(worker.token)\r\n\r\n"
        }
        var held: [RawConnection] = []
        for count in 1...3 {
            let connection = try wait(scene.ada)
            await connection.send(head(scene.ada))
            held.append(connection)
            try await scene.reaches("sluice_http_waits \(count)")
        }
        let refused = try wait(scene.ada)
        await refused.send(head(scene.ada))
        let reply = try await refused.reply()
        expectProblem(reply, .overloaded, errors: [])
        #expect(reply.header("retry-after") == ["1"])
        // requests that do not wait are answered, and so are other organizations
        #expect(try await scene.ada.get("/v1/changes").status == 200)
        let other = try wait(scene.eve)
        await other.send(head(scene.eve))
        try await scene.reaches("sluice_http_waits 4")
        _ = try await scene.eve.push([scene.eve.create()])
        #expect(try await other.reply().changes.count == 1)
        for connection in held { connection.reset() }
        try await scene.reaches("sluice_http_waits 0")
    }

    @Test func `listeners of one organization make room for those of another`() async throws {
        let scene = try await TwoTenantFixture { $0.maximumListeners = 4 }
        func listen(_ worker: SyncWorker) async throws -> RawConnection {
            let connection = try RawConnection(port: scene.gateway.port)
            await connection.send(
                "GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(worker.token)\r\n\r\n"
            )
            return connection
        }
        var crowd: [RawConnection] = []
        for count in 1...4 {
            crowd.append(try await listen(scene.ada))
            try await scene.reaches("sluice_event_streams \(count)")
        }
        expectProblem(try await listen(scene.bob).reply(), .overloaded, errors: [])
        let guest = try await listen(scene.eve)
        try await scene.reaches(#"sluice_event_streams_ended_total{reason="superseded"} 1"#)
        try await scene.reaches("sluice_event_streams 4")
        #expect(!guest.isBroken)
    }
}
