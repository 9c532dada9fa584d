import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncHTTP
import SyncModel
import TestSupport
import Testing

/// A suspended organization is rejected on every route; its data stays.
@Suite struct SuspensionTests {
    @Test func `suspension rejects every user route immediately and reactivation restores it`() async throws {
        let fixture = try await TwoTenantFixture()
        let draft = fixture.ada.create()
        #expect(try await fixture.ada.push([draft]).status == 200)
        let before = try await fixture.tables()
        #expect(try await fixture.operate(.PUT, fixture.admin, #"{"status":"suspended"}"#).status == 200)
        let routes: [(HTTPMethod, String)] = [
            (.POST, "/v1/mutations"), (.POST, "/v1/mutations/preview"), (.GET, "/v1/mutations"),
            (.GET, "/v1/mutations/\(draft.id)"), (.GET, "/v1/mutations/\(draft.id)?wait=5"),
            (.POST, "/v1/mutations/\(draft.id)/retry"), (.POST, "/v1/mutations/\(draft.id)/discard"),
            (.POST, "/v1/mutations/\(draft.id)/resolve"), (.GET, "/v1/backlog"),
            (.PUT, "/v1/devices/\(fixture.ada.device.lowercased)"), (.GET, "/v1/id-mappings"),
            (.POST, "/v1/id-mappings/lookup"), (.GET, "/v1/changes"), (.GET, "/v1/changes?wait=5"),
            (.GET, "/v1/events"),
        ]
        for (method, path) in routes {
            let reply = try await send(method, fixture.gateway.address + path, token: fixture.ada.token)
            expectProblem(reply, .organizationSuspended, errors: [])
            #expect(reply.status == 403, "\(method) \(path)")
        }
        #expect(try await fixture.eve.get("/v1/changes").status == 200)
        _ = try await fixture.operate(.PUT, fixture.admin, #"{"status":"active"}"#)
        #expect(try await fixture.ada.push([draft]).results.map { $0["replayed"]?.bool } == [true])
        #expect(try await fixture.tables() == before)
    }

    @Test func `suspension ends waiting requests, and accepted requests are answered`() async throws {
        let fixture = try await TwoTenantFixture(forwards: true) { $0.checkInterval = .milliseconds(50) }
        // no upstream listens, so pushed mutations stay pending
        let upstream = #"{"base_url":"http://127.0.0.1:1","timeout_seconds":1}"#
        #expect(try await fixture.operate(.PUT, fixture.admin + "/upstream", upstream).status == 201)
        let draft = fixture.bob.create("note").with(["endpoint": #""/notes""#])
        async let pull = fixture.ada.get("/v1/changes?wait=60")
        async let push = fixture.bob.push([draft], prefer: "wait=60")
        try await fixture.reaches("sluice_http_requests_in_flight 2")
        let eve = Task { try await fixture.eve.get("/v1/changes?wait=2") }
        #expect(try await fixture.operate(.PUT, fixture.admin, #"{"status":"suspended"}"#).status == 200)
        expectProblem(try await pull, .organizationSuspended, errors: [])
        // a push that was accepted before the suspension gets its result, and a later push is rejected
        let answer = try await push
        #expect(answer.status == 202 || answer.status == 403, "\(answer.text)")
        #expect(try await eve.value.status == 200)
    }

    /// Events that occur after the suspension are not sent.
    @Test func `a stream ends without further events after a suspension`() async throws {
        let fixture = try await TwoTenantFixture()
        let (ada, _) = try await fixture.ada.listen()
        #expect(try await fixture.operate(.PUT, fixture.admin, #"{"status":"suspended"}"#).status == 200)
        // the test writes changes to the tables, because requests are rejected
        try await fixture.execute("UPDATE feeds SET last_position = last_position + 1")
        try await fixture.execute("SELECT pg_notify('sluice', '00000000e')")
        #expect(try await ada.next() == nil)
    }
}
