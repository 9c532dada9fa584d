import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncHTTP
import SyncModel
import TestSupport
import Testing

/// `GET /v1/events`
@Suite struct EventsTests {
    @Test func `a push's outcomes are sent to its user and other users get only a hint to pull`() async throws {
        let fixture = try await TwoTenantFixture()
        let (ada, _) = try await fixture.ada.listen()
        let (bob, _) = try await fixture.bob.listen()
        let (eve, _) = try await fixture.eve.listen()
        #expect(ada.status == 200)
        #expect(ada.headers["content-type"] == ["text/event-stream"])
        #expect(ada.headers["cache-control"] == ["no-store"])
        #expect(ada.headers["x-accel-buffering"] == ["no"])
        let draft = fixture.ada.create()
        let pushed = try await fixture.ada.push([draft])
        let frames = try await ada.next(3)
        #expect(frames.map(\.event) == ["mutation", "id_mapping", "changes"])
        let mutation = try #require(frames[0].data)
        let names = try #require(pushed.results.first).names.filter { $0 != "replayed" }
        #expect(mutation.names == names + ["device_id", "operation", "entity_type", "accepted_at", "synced_at"])
        for name in names {
            #expect(mutation.value(at: "/\(name)")?.text == pushed.results[0].value(at: "/\(name)")?.text, "\(name)")
        }
        #expect(mutation["device_id"]?.string == fixture.ada.device.lowercased)
        #expect(mutation["operation"]?.string == "create")
        #expect(mutation["synced_at"]?.string == fixture.gateway.clock.now.rfc3339)
        #expect(frames[1].data?.text == pushed.mappings.first?.text)
        let feed = try #require(frames[2].data?["feed"]?.string)
        #expect(feed == pushed.json?["feed"]?.string)
        #expect(try await fixture.bob.get("/v1/changes?since=\(feed)").changes.isEmpty)

        let bobs = try #require(try await bob.next())
        #expect(bobs.event == "changes")
        #expect(bobs.data?["feed"]?.string == feed)
        _ = try await fixture.eve.push([fixture.eve.create()])
        #expect(
            try await eve.next(3).map(\.event) == ["mutation", "id_mapping", "changes"],
            "no other event came before these"
        )
    }

    @Test func `entities visible only to their owner cause no hint to others`() async throws {
        let fixture = try await TwoTenantFixture()
        _ = try await fixture.operate(.PUT, fixture.admin + "/entity-types/diary", #"{"visibility":"user"}"#)
        let (ada, _) = try await fixture.ada.listen()
        let (bob, _) = try await fixture.bob.listen()
        for _ in 0..<3 {
            _ = try await fixture.ada.push([fixture.ada.create("diary")])
            #expect(try await ada.until { $0.event == "changes" }.count == 3)
        }
        let visible = try await fixture.ada.push([fixture.ada.create("task")])
        let hint = try #require(try await bob.next())
        #expect(hint.data?["feed"]?.string == visible.json?["feed"]?.string)
    }

    @Test func `a stream resumes after any event`() async throws {
        let fixture = try await TwoTenantFixture()
        let (live, start) = try await fixture.ada.listen()
        let locals = (0..<3).map { _ in UUID() }
        _ = try await fixture.ada.push(locals.map { fixture.ada.create(local: $0) })
        _ = try await fixture.ada.push([fixture.ada.create("note", local: locals[0]), fixture.ada.create("note")])
        _ = live
        let (whole, _) = try await fixture.ada.listen(after: start)
        let all = try await whole.until { $0.event == "changes" }
        #expect(all.count == 11)
        #expect(Set(all.map(\.summary)).count == 11, "each event is sent once")
        for (index, frame) in all.enumerated() {
            let (rest, opening) = try await fixture.ada.listen(after: frame.id)
            #expect(opening == frame.id)
            if index == all.count - 1 {
                _ = try await fixture.bob.push([fixture.bob.create()])
                #expect(try await rest.next()?.summary == "changes")
            } else {
                let remaining = try await rest.next(all.count - index - 1)
                #expect(remaining.map(\.summary) == all[(index + 1)...].map(\.summary), "after \(index)")
            }
        }
    }

    @Test func `a push of many mutations results in all events in order`() async throws {
        let fixture = try await TwoTenantFixture()
        let (_, start) = try await fixture.ada.listen()
        let drafts = (0..<300).map { _ in fixture.ada.create() }
        _ = try await fixture.ada.push(drafts)
        let (whole, _) = try await fixture.ada.listen(after: start)
        let frames = try await whole.until { $0.event == "changes" }
        #expect(frames.filter { $0.event == "mutation" }.map { $0.data?["id"]?.string } == drafts.map(\.id))
        #expect(Set(frames.filter { $0.event == "id_mapping" }.map(\.summary)).count == 300)
        #expect(frames.count == 601)
    }

    @Test func `conflicts and settlements are events`() async throws {
        let fixture = try await TwoTenantFixture()
        let server = try #require(
            try await fixture.ada.push([fixture.ada.create()]).results.first?["server_id"]?.string
        )
        _ = try await fixture.bob.push([fixture.bob.change(server: server)])
        let (ada, _) = try await fixture.ada.listen()
        let conflicting = fixture.ada.change(server: server, base: 1)
        let waiting = fixture.ada.create()
        _ = try await fixture.ada.push([conflicting, waiting])
        let reported = try await ada.next(3)
        #expect(
            reported.map(\.summary).prefix(2) == ["\(conflicting.id) conflict", "\(waiting.id) pending"],
            "a conflict halts its lane"
        )
        #expect(reported[0].data?.errorCode == "conflict")
        #expect(reported[0].data?["error"]?["current"]?["version"]?.int64 == 2)
        #expect(reported[2].data?["status"]?.string == "pending")
        let resolved = try await fixture.ada.post(
            "/v1/mutations/\(conflicting.id)/resolve",
            #"{"strategy":"server_wins"}"#
        )
        #expect(resolved.status == 200, "\(resolved.text)")
        let settled = try await ada.until { $0.summary == "\(conflicting.id) discarded" }
        #expect(settled.last?.data?["resolution"]?.string == "server_wins")
    }

    @Test func `upstream failures and exhausted attempts are events`() async throws {
        let fixture = try await TwoTenantFixture(forwards: true)
        let server = try await HTTPBinServer.shared()
        let upstream = #"{"base_url":"\#(server.baseURL)"}"#
        #expect(try await fixture.operate(.PUT, fixture.admin + "/upstream", upstream).status == 201)
        let (ada, _) = try await fixture.ada.listen()
        let refused = fixture.ada.create().with(["endpoint": #""/status/422""#])
        let exhausted = fixture.ada.create().with(["endpoint": #""/status/503""#, "max_attempts": "1"])
        _ = try await fixture.ada.push([refused, exhausted])
        var last: [String: JSONValue] = [:]
        while last[refused.id]?["status"]?.string != "failed" || last[exhausted.id]?["status"]?.string != "failed" {
            let frame = try #require(try await ada.next())
            if frame.event == "mutation", let data = frame.data, let id = data["id"]?.string { last[id] = data }
        }
        #expect(last[refused.id]?.errorCode == "upstream_rejected")
        #expect(last[exhausted.id]?.errorCode == "max_attempts_reached")
    }

    @Test func `keep-alives keep a stream open beyond the idle time-out`() async throws {
        let fixture = try await TwoTenantFixture {
            $0.keepAlive = .milliseconds(100)
            $0.idleTimeout = .milliseconds(500)
        }
        let (ada, _) = try await fixture.ada.listen()
        for _ in 0..<10 { #expect(try await ada.nextFrame()?.comment == "keep-alive") }
        let draft = fixture.ada.create()
        _ = try await fixture.ada.push([draft])
        #expect(try await ada.next()?.summary == "\(draft.id) succeeded")
    }

    @Test func `a stream ends when its token, its lifetime or its organization ends`() async throws {
        let fixture = try await TwoTenantFixture { $0.keepAlive = .milliseconds(50) }
        let short = try await fixture.gateway.token(
            organization: fixture.ada.organization,
            user: fixture.ada.user,
            seconds: 1
        )
        let expiring = try await EventListener(fixture.gateway.address, token: short)
        #expect(try await expiring.next()?.retry == "2000")
        #expect(try await expiring.next() == nil)

        let (ada, _) = try await fixture.ada.listen()
        let (eve, _) = try await fixture.eve.listen()
        #expect(try await fixture.operate(.PUT, fixture.admin, #"{"status":"suspended"}"#).status == 200)
        #expect(try await ada.next() == nil)
        #expect(try await eve.nextFrame()?.comment == "keep-alive")

        let brief = try await TwoTenantFixture { $0.maximumStream = .milliseconds(100) }
        let (bob, _) = try await brief.bob.listen()
        #expect(try await bob.next() == nil)
        let ends = try await brief.metrics().filter {
            $0.hasPrefix("sluice_event_streams_ended_total") && $0.hasSuffix(" 1")
        }
        #expect(ends == [#"sluice_event_streams_ended_total{reason="expired"} 1"#])
    }

    @Test func `a deprovisioned user's stream ends`() async throws {
        let fixture = try await TwoTenantFixture(#"{"provisioning":"explicit"}"#) { $0.keepAlive = .milliseconds(50) }
        let user = fixture.admin + "/users/\(fixture.ada.user.lowercased)"
        #expect(try await fixture.ada.get("/v1/events").code == "user_unknown")
        #expect(try await fixture.operate(.PUT, user).status == 201)
        let (ada, _) = try await fixture.ada.listen()
        #expect(try await fixture.operate(.DELETE, user).status == 204)
        #expect(try await ada.next() == nil)
    }

    /// Pushes megabytes, and repeats the push while the machine is too busy to accept it in time.
    private static func pushed(_ worker: SyncWorker, _ drafts: [Draft]) async throws -> Reply {
        let reply = try await untilAvailable { try await worker.push(drafts) }
        #expect(reply.status == 200)
        return reply
    }

    /// Fills Ada's stream, which she does not read, with conflicts. Their large documents exceed the buffers of both
    /// ends.
    private static func fill(
        _ fixture: TwoTenantFixture
    ) async throws -> (connection: RawConnection, start: String, drafts: [Draft]) {
        let document = #"{"t":"\#(String(repeating: "x", count: 150_000))"}"#
        var servers: [String] = []
        for _ in 0..<3 {
            let pushed = try await Self.pushed(fixture.bob, (0..<15).map { _ in fixture.bob.create("task", document) })
            servers += pushed.results.compactMap { $0["server_id"]?.string }
        }
        _ = try await Self.pushed(fixture.bob, servers.map { fixture.bob.change(server: $0) })
        let (_, start) = try await fixture.ada.listen()
        let slow = try RawConnection(port: fixture.gateway.port, receiveBuffer: 4_096)
        await slow.send(
            "GET /v1/events HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer \(fixture.ada.token)\r\n"
                + "Last-Event-ID: \(start)\r\n\r\n"
        )
        // each conflict contains the document, and all conflicts together exceed the buffers of both ends
        let drafts = servers.map { fixture.ada.change(server: $0, base: 1) }
        for start in stride(from: 0, to: drafts.count, by: 15) {
            _ = try await Self.pushed(fixture.ada, Array(drafts[start..<(start + 15)]))
        }
        return (slow, start, drafts)
    }

    @Test func `a client that does not read is disconnected and can resume`() async throws {
        let fixture = try await TwoTenantFixture(#"{"on_conflict":"continue"}"#) { $0.writeTimeout = .seconds(5) }
        let (slow, start, drafts) = try await Self.fill(fixture)
        try await fixture.reaches(#"sluice_event_streams_ended_total{reason="slow"} 1"#)
        #expect(try await fixture.metrics().contains("sluice_event_stream_held_bytes 0"))
        let (again, _) = try await fixture.ada.listen(after: start)
        let reported = try await again.next(drafts.count)
        #expect(reported.map { $0.data?["id"]?.string } == drafts.map(\.id))
        _ = slow
    }

    @Test func `a stream above the shared memory limit waits until slow streams are disconnected`() async throws {
        let fixture = try await TwoTenantFixture(#"{"on_conflict":"continue"}"#) {
            $0.heldEventBytes = 100_000
            $0.writeTimeout = .seconds(5)
        }
        let (bob, _) = try await fixture.bob.listen()
        let slow = try await Self.fill(fixture)
        _ = try await fixture.bob.push((0..<50).map { _ in fixture.bob.create() })
        #expect(try await bob.next(100).count == 100)
        _ = slow
    }

    @Test func `a user's oldest stream ends when the limit is exceeded`() async throws {
        let fixture = try await TwoTenantFixture { $0.listenersPerUser = 2 }
        let (first, _) = try await fixture.ada.listen()
        let (second, _) = try await fixture.ada.listen()
        let (bob, _) = try await fixture.bob.listen()
        let (third, _) = try await fixture.ada.listen()
        #expect(try await first.next() == nil)
        _ = try await fixture.ada.push([fixture.ada.create()])
        #expect(try await second.next(3).count == 3)
        #expect(try await third.next(3).count == 3)
        #expect(try await bob.next()?.event == "changes")
        #expect(try await fixture.metrics().contains("sluice_event_streams 3"))
    }

    @Test func `a deprovisioned user's stream ends even under a continuous load of events`() async throws {
        let fixture = try await TwoTenantFixture(#"{"provisioning":"explicit"}"#) { $0.keepAlive = .milliseconds(200) }
        for worker in [fixture.ada, fixture.bob] {
            let user = fixture.admin + "/users/\(worker.user.lowercased)"
            #expect(try await fixture.operate(.PUT, user).status == 201)
        }
        let (ada, _) = try await fixture.ada.listen()
        #expect(
            try await fixture.operate(.DELETE, fixture.admin + "/users/\(fixture.ada.user.lowercased)").status == 204
        )
        try await waitUntil("her stream has ended", every: .zero) {
            _ = try await fixture.bob.push([fixture.bob.create()])
            return try await ada.next() == nil
        }
    }

    // MARK: - Refusals

    @Test func `rejects an event id that is not of this stream`() async throws {
        let fixture = try await TwoTenantFixture()
        let (_, start) = try await fixture.ada.listen()
        let epoch = start.split(separator: "-")[1]
        for id in [
            "x", "e1", "e1-1-0", "e2-\(epoch)-0-0", "e1-\(epoch)--0-0", "e1-\(epoch)-0-zzzzzzzzzzzzzzzz",
            "e1-\(epoch)-0-1-m", "e1-\(epoch)-0-1-m--1", "e1-\(epoch)-0-1-i-0-task", "e1-\(epoch)-0-1-x-1",
            "e1-\(epoch)-0-1-i-\(String(repeating: "0", count: 32))-Task", String(repeating: "e", count: 300),
            "f1-\(epoch)-0-0-0", "e1-\(epoch)-0-1-m-1-2",
        ] {
            let reply = try await fixture.ada.get("/v1/events", headers: [("Last-Event-ID", id)])
            expectProblem(reply, .invalidRequest, errors: [" header_invalid"])
        }
        for id in ["e1-1-0-0", "e1-\(epoch)-0-1", "e1-\(epoch)-9-0", "e1-\(epoch)-0-1-m-1"] {
            let reply = try await fixture.ada.get("/v1/events", headers: [("Last-Event-ID", id)])
            expectProblem(reply, .cursorExpired)
            #expect(reply.json?["snapshot"]?.string == "/v1/events", "\(id)")
        }
        let unknown = try await fixture.ada.get("/v1/events?since=\(start)")
        expectProblem(unknown, .invalidRequest, errors: [" parameter_unknown"])
        for accept in ["application/json", "text/html, application/*", "text/event-stream;q=0"] {
            let reply = try await fixture.ada.get("/v1/events", headers: [("Accept", accept)])
            expectProblem(reply, .notAcceptable)
        }
        expectProblem(try await send(.GET, fixture.gateway.address + "/v1/events"), .unauthorized)
        let head = try await send(.HEAD, fixture.gateway.address + "/v1/events", token: fixture.ada.token)
        #expect(head.status == 200)
        #expect(head.header("content-type") == ["text/event-stream"])
    }

    @Test func `a cursor is invalid for another user`() async throws {
        let fixture = try await TwoTenantFixture()
        let (_, start) = try await fixture.ada.listen()
        _ = try await fixture.ada.push([fixture.ada.create()])
        let (ada, _) = try await fixture.ada.listen(after: start)
        let frames = try await ada.until { $0.event == "changes" }
        // the cursor identifies its user, even if Bob's lane is further ahead
        for id in [start, try #require(frames[0].id)] {
            let reply = try await fixture.bob.get("/v1/events", headers: [("Last-Event-ID", id)])
            expectProblem(reply, .cursorExpired)
        }
        let (bob, _) = try await fixture.bob.listen()
        let own = fixture.bob.create()
        _ = try await fixture.bob.push([own])
        let seen = try await bob.until { $0.event == "id_mapping" }.filter { $0.event == "mutation" }
        #expect(seen.map(\.summary) == ["\(own.id) succeeded"])
    }

    @Test func `streams of a restored or purged organization end permanently`() async throws {
        let fixture = try await TwoTenantFixture { $0.keepAlive = .milliseconds(50) }
        let (ada, start) = try await fixture.ada.listen()
        try await fixture.execute(
            "UPDATE feeds SET epoch = epoch + 1 WHERE organization_id = '\(fixture.ada.organization.lowercased)'"
        )
        _ = try await fixture.ada.push([fixture.ada.create()])
        #expect(try await ada.next() == nil)
        expectProblem(try await fixture.ada.get("/v1/events", headers: [("Last-Event-ID", start)]), .cursorExpired)
        let (bob, _) = try await fixture.bob.listen()
        #expect(try await fixture.operate(.DELETE, fixture.admin).status == 204)
        #expect(try await bob.next() == nil)
    }
}
