import Foundation
import GatewaySupport
import Glibc
import JSONText
import OperatorsFeature
import Postgres
import TestSupport
import Testing

/// The graceful shutdown of `sluice serve`.
@Suite(.serialized, .timeLimit(.minutes(10))) struct ShutdownTests {
    private struct Fixture {
        let database: TestDatabase
        let gateway: GatewayProcess
        let worker: SingleWorker
        let sessions: DatabaseSessions

        init(on cluster: TestCluster? = nil, settings: [String: String] = [:]) async throws {
            database = try await LiveGateway.migratedDatabase(on: cluster)
            gateway = try await GatewayProcess.start(
                database: database.uri,
                settings: settings.merging(["SLUICE_LOG_LEVEL": "info"]) { $1 }
            )
            worker = try await SingleWorker(gateway)
            sessions = try await DatabaseSessions(database)
        }

        /// The messages of the log, in order.
        var messages: [String] { gateway.messages }

        /// Locks the row that every push to the organization updates, until `COMMIT`.
        func holdFeed() async throws {
            let feed = "feeds WHERE organization_id = '\(worker.organization)'"
            try await sessions.connection.execute(script: "BEGIN; SELECT FROM \(feed) FOR UPDATE")
        }

        /// Returns once new connections are not accepted.
        func publicListenerIsClosed() async throws {
            try await waitUntil("no connection is accepted") { !LoopbackPort.accepts(gateway.port) }
        }
    }

    @Test(arguments: [SIGTERM, SIGINT])
    func `pushes in progress are answered at shutdown and the next start continues`(signal: Int32) async throws {
        let fixture = try await Fixture()
        let other = try await SingleWorker(fixture.gateway, organization: fixture.worker.organization)
        let first = fixture.worker.draft(1)
        _ = try await fixture.worker.push([first])
        // another session has locked the row that every push to the organization updates
        try await fixture.holdFeed()
        let (second, third) = (fixture.worker.draft(2), other.draft(1))
        async let held = fixture.worker.push([second])
        async let waiting = other.push([third], prefer: "wait=20")
        try await fixture.sessions.await(1, waitingFor: "Lock")
        // without this wait, the other push may not have arrived at the gateway, and would not be in progress
        try await fixture.gateway.metric("sluice_http_requests_in_flight", reaches: 2)

        fixture.gateway.send(signal)
        try await fixture.publicListenerIsClosed()
        await #expect(throws: (any Error).self) { try await fixture.worker.push([first]) }
        #expect(fixture.gateway.status == nil, "the gateway waits for the requests in progress")
        try await fixture.sessions.connection.execute(script: "COMMIT")
        for reply in [try await held, try await waiting] {
            #expect(reply.status == 200, "\(reply.text)")
            #expect(reply.statuses == ["succeeded"])
            #expect(reply.results.first?["replayed"]?.bool == false)
            #expect(reply.header("connection") == ["close"])
        }
        #expect(try await fixture.gateway.end() == 0)
        #expect(
            fixture.messages.suffix(2) == ["Sluice is shutting down after finishing work in progress", "Sluice ended"]
        )

        try fixture.gateway.restart()
        try await fixture.gateway.waitUntilReady()
        let again = try await fixture.worker.push([first, second, fixture.worker.draft(3)])
        #expect(again.results.map { $0["replayed"]?.bool } == [true, true, false])
        #expect(try await other.push([third]).results.map { $0["replayed"]?.bool } == [true])
        #expect(try await fixture.worker.get("/v1/changes").changes.count == 4)
        #expect(try await fixture.gateway.terminate() == 0)
        await fixture.sessions.close()
    }

    /// A client that pipelines pushes receives a response for each accepted push.
    @Test(arguments: ["", "Prefer: wait=5\r\n"])
    func `pipelined pushes are answered at shutdown as well`(field: String) async throws {
        let fixture = try await Fixture()
        let worker = fixture.worker
        _ = try await worker.push([worker.draft(1)])
        try await fixture.holdFeed()
        let pushes = (2...3).map { number in
            let body = worker.envelope([worker.draft(Int64(number))])
            return "POST /v1/mutations HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer \(worker.token)\r\n\(field)"
                + "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
        }
        let connection = try RawConnection(port: fixture.gateway.port)
        await connection.send(pushes.joined())
        try await fixture.sessions.await(1, waitingFor: "Lock")

        fixture.gateway.send(SIGTERM)
        try await fixture.publicListenerIsClosed()
        try await fixture.sessions.connection.execute(script: "COMMIT")
        for number in 2...3 {
            let reply = try await connection.reply()
            #expect(reply.status == 200, "\(reply.text)")
            #expect(reply.json?["accepted_sequence"]?.int64 == Int64(number))
            #expect(reply.header("connection") == (number < 3 ? [] : ["close"]))
        }
        #expect(await connection.rest().isEmpty)
        #expect(try await fixture.gateway.end() == 0)
        await fixture.sessions.close()
    }

    /// The lane continues once a user settles the conflict, which does not happen during the shutdown.
    @Test func `a wait for a settlement ends at shutdown with the current result`() async throws {
        let fixture = try await Fixture()
        let other = try await SingleWorker(fixture.gateway, organization: fixture.worker.organization)
        let server = try #require(
            try await fixture.worker.push([fixture.worker.draft(1)]).results.first?["server_id"]?.text
        )
        let update = ["operation": #""update""#, "server_id": server, "base_version": "1"]
        _ = try await other.push([other.draft(1, update)])
        let conflict = try await fixture.worker.push([fixture.worker.draft(2, update)])
        #expect(conflict.statuses == ["conflict"])
        async let waiting = fixture.worker.push([fixture.worker.draft(3)], prefer: "wait=30")
        // a wait polls the database
        let committed = Statement("shutdown_pending", "SELECT count(*) FROM mutations WHERE status = 'pending'")
        try await waitUntil("it is committed") {
            try await fixture.sessions.connection.run(Query(committed)).read(0, 0, as: Int64.self) > 0
        }
        fixture.gateway.send(SIGTERM)
        let reply = try await waiting
        #expect(reply.status == 202, "\(reply.text)")
        #expect(reply.statuses == ["pending"])
        #expect(try await fixture.gateway.end() == 0)
        await fixture.sessions.close()
    }

    /// Phones on slow networks keep a connection or an incomplete request open until a time-out.
    @Test func `idle connections do not delay the shutdown`() async throws {
        let fixture = try await Fixture()
        let idle = try RawConnection(port: fixture.gateway.port)
        await idle.send(
            "GET /v1/changes HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer \(fixture.worker.token)\r\n\r\n"
        )
        #expect(try await idle.reply().status == 200)
        let halfway = try RawConnection(port: fixture.gateway.port)
        await halfway.send(
            "POST /v1/mutations HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer \(fixture.worker.token)\r\n"
                + "Content-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n"
        )
        let start = ContinuousClock.now
        // the gateway is reading the body, so the request is incomplete
        #expect(try await halfway.reply().status == 100)
        fixture.gateway.send(SIGTERM)
        #expect(await idle.rest().isEmpty, "an idle connection is closed")
        #expect(try await halfway.reply().status == 408)
        #expect(.now - start < .seconds(30), "both end before their usual time-outs of 75 s and 30 s")
        #expect(try await fixture.gateway.end() == 0)
        #expect(fixture.messages.last == "Sluice ended")
        await fixture.sessions.close()
    }

    @Test func `a frozen database does not delay the shutdown`() async throws {
        let cluster = try await TestCluster.dedicated()
        let fixture = try await Fixture(on: cluster, settings: ["SLUICE_STATEMENT_SECONDS": "2.5"])
        _ = try await fixture.worker.push([fixture.worker.draft(1)])
        let backends = try await fixture.sessions.processes()
        await fixture.sessions.close()
        for backend in backends { kill(backend, SIGSTOP) }
        try await cluster.freeze(true)
        let push = fixture.worker.draft(2)
        async let reply = fixture.worker.push([push])
        async let other = fixture.worker.get("/v1/changes")
        // while the database is frozen, only this metric shows a request in progress
        try await fixture.gateway.metric("sluice_http_requests_in_flight", reaches: 2)
        fixture.gateway.send(SIGTERM)
        for reply in [try await reply, try await other] {
            #expect(reply.status == 503, "\(reply.text)")
            #expect(reply.code == "store_unavailable")
        }
        // the gateway ends although the database stays frozen
        #expect(try await fixture.gateway.end() == 0)

        for backend in backends { kill(backend, SIGCONT) }
        try await cluster.freeze(false)
        try fixture.gateway.restart()
        try await fixture.gateway.waitUntilReady()
        #expect(try await fixture.worker.push([push]).statuses == ["succeeded"])
        #expect(try await fixture.worker.get("/v1/changes").changes.count == 2)
        #expect(try await fixture.gateway.terminate() == 0)
        await cluster.close()
    }

    @Test(arguments: [SIGTERM, SIGINT])
    func `a second Ctrl-C ends the program immediately`(first: Int32) async throws {
        let fixture = try await Fixture()
        _ = try await fixture.worker.push([fixture.worker.draft(1)])
        try await fixture.holdFeed()
        let draft = fixture.worker.draft(2)
        let push = Task { try await fixture.worker.push([draft]) }
        try await fixture.sessions.await(1, waitingFor: "Lock")
        fixture.gateway.send(first)
        try await fixture.publicListenerIsClosed()
        // this signal does not end the program, because only Ctrl-C comes from a person who does not want to wait
        fixture.gateway.send(SIGTERM)
        fixture.gateway.send(SIGINT)
        // the push is still blocked, so only the second signal can have ended the program
        #expect(try await fixture.gateway.end() == 130)
        #expect(fixture.messages.last == "Interrupted again; work in progress was aborted")
        await #expect(throws: (any Error).self) { try await push.value }
        try await fixture.sessions.connection.execute(script: "COMMIT")
        await fixture.sessions.close()
    }

    @Test func `the log reports start and shutdown once each`() async throws {
        let fixture = try await Fixture()
        #expect(try await fixture.gateway.terminate() == 0)
        #expect(
            // a machine with a low limit of open files causes a warning
            fixture.messages.filter { $0 != "Request answered" && !$0.hasPrefix("The limit of open files") } == [
                "Sluice starts", "Listening", "Sluice is shutting down after finishing work in progress",
                "Sluice ended",
            ]
        )
        let listening = try #require(fixture.gateway.lines.first { $0["message"]?.string == "Listening" })
        #expect(listening["public"]?.string == "127.0.0.1:\(fixture.gateway.port)")
        #expect(listening["operations"]?.string == String(fixture.gateway.operations.dropFirst("http://".count)))
        #expect(!fixture.gateway.log.contains(GatewayProcess.secret))
        #expect(!fixture.gateway.log.contains(GatewayProcess.operatorToken))
        #expect(!fixture.gateway.log.contains(fixture.database.uri))
        await fixture.sessions.close()
    }
}
