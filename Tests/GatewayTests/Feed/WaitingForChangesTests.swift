import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncHTTP
import SyncModel
import TestSupport
import Testing

/// `GET /v1/changes?wait=N`
@Suite struct WaitingForChangesTests {
    /// A pull in progress: it has read an empty page and waits.
    private static func pulling(_ worker: SyncWorker, _ query: String, _ fixture: TwoTenantFixture) async throws
        -> Task<
            Reply, any Error
        >
    {
        let pull = Task { try await worker.get("/v1/changes?wait=60\(query)") }
        try await fixture.reaches("sluice_http_requests_in_flight 1")
        return pull
    }

    @Test func `a pull with an empty page waits for a change`() async throws {
        let fixture = try await TwoTenantFixture()
        let start = try #require(try await fixture.bob.get("/v1/changes").next)
        let pull = try await Self.pulling(fixture.bob, "&since=\(start)", fixture)
        let pushed = try await fixture.ada.push([fixture.ada.create()])
        let reply = try await pull.value
        #expect(reply.status == 200)
        #expect(reply.changes.map { $0["id"]?.string } == pushed.results.map { $0["server_id"]?.string })
        #expect(reply.next == pushed.json?["feed"]?.string)
        // existing changes are returned without a wait
        let begun = ContinuousClock.now
        #expect(try await fixture.bob.get("/v1/changes?wait=60&since=\(start)").changes.count == 1)
        #expect(.now - begun < .seconds(60))
    }

    @Test func `invisible or filtered changes do not end a wait`() async throws {
        let fixture = try await TwoTenantFixture()
        _ = try await fixture.operate(.PUT, fixture.admin + "/entity-types/diary", #"{"visibility":"user"}"#)
        let pull = try await Self.pulling(fixture.bob, "&entity_type=task,diary", fixture)
        _ = try await fixture.ada.push([fixture.ada.create("diary")])
        _ = try await fixture.ada.push([fixture.ada.create("note")])
        _ = try await fixture.eve.push([fixture.eve.create("task")])
        let shown = try await fixture.ada.push([fixture.ada.create("task")])
        let reply = try await pull.value
        #expect(reply.changes.map { $0["id"]?.string } == [shown.results[0]["server_id"]?.string])
        #expect(reply.isUpToDate == true)
    }

    @Test func `an expired wait returns an empty page with a cursor`() async throws {
        let fixture = try await TwoTenantFixture()
        _ = try await fixture.operate(.PUT, fixture.admin + "/entity-types/diary", #"{"visibility":"user"}"#)
        let before = try #require(try await fixture.bob.get("/v1/changes").next)
        _ = try await fixture.ada.push([fixture.ada.create("diary")])
        let reply = try await fixture.bob.get("/v1/changes?wait=1&since=\(before)")
        #expect(reply.status == 200)
        #expect(reply.changes.isEmpty)
        #expect(reply.isUpToDate == true)
        #expect(reply.next != before, "skipped changes are not read again")
        expectProblem(try await fixture.bob.get("/v1/changes?wait=1&since=f1-0-0-0-0"), .cursorExpired)
    }

    @Test func `rejects invalid waits and shortens long waits`() async throws {
        let fixture = try await TwoTenantFixture { $0.maximumWait = .milliseconds(100) }
        let start = ContinuousClock.now
        #expect(try await fixture.ada.get("/v1/changes?wait=1000000").changes.isEmpty)
        #expect(.now - start < .seconds(60), "the configured maximum of 100 ms applies, not the default of 60 s")
        for wait in ["-1", "soon", "1.5", "1&wait=2", "12345678901"] {
            let reply = try await fixture.ada.get("/v1/changes?wait=\(wait)")
            expectProblem(reply, .invalidRequest, errors: [" parameter_invalid"])
        }
    }

    @Test func `a disconnected client's wait ends and frees its resources`() async throws {
        let fixture = try await TwoTenantFixture()
        let connection = try RawConnection(port: fixture.gateway.port)
        await connection.send(
            "GET /v1/changes?wait=60 HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer \(fixture.ada.token)\r\n\r\n"
        )
        for inFlight in [1, 0] {
            try await fixture.reaches("sluice_http_requests_in_flight \(inFlight)")
            if inFlight == 1 { connection.reset() }
        }
    }

    @Test func `a change wakes all waiting pulls`() async throws {
        let fixture = try await TwoTenantFixture()
        let start = try #require(try await fixture.bob.get("/v1/changes").next)
        let replies = try await withThrowingTaskGroup(of: Reply.self) { group in
            for number in 0..<6 {
                let worker = number % 2 == 0 ? fixture.bob : fixture.ada
                group.addTask { try await worker.get("/v1/changes?wait=60&since=\(start)") }
            }
            try await fixture.reaches("sluice_http_requests_in_flight 6")
            _ = try await fixture.ada.push([fixture.ada.create()])
            return try await group.reduce(into: [Reply]()) { $0.append($1) }
        }
        #expect(replies.map(\.changes.count) == Array(repeating: 1, count: 6))
    }
}
