import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import Postgres
import TestSupport
import Testing

/// Crashes between a commit and its response, when the gateway cannot know the outcome.
///
/// A commit that waits for a missing standby is on disk already, but its gateway has no confirmation.
@Suite(.serialized, .timeLimit(.minutes(10))) struct LostAnswerTests {
    private struct Fixture {
        let cluster: TestCluster
        let database: TestDatabase
        let gateway: GatewayProcess
        let worker: SingleWorker
        let sessions: DatabaseSessions

        init(settings: [String: String] = [:]) async throws {
            cluster = try await TestCluster.dedicated(isDurable: true)
            database = try await LiveGateway.migratedDatabase(on: cluster)
            gateway = try await GatewayProcess.start(database: database.uri, settings: settings)
            worker = try await SingleWorker(gateway)
            sessions = try await DatabaseSessions(database)
        }

        /// Makes all following commits wait for their confirmation, or releases the waiting commits.
        func hold(_ isHeld: Bool) async throws {
            let standby = isHeld ? "nobody" : ""
            try await sessions.connection.execute(script: "ALTER SYSTEM SET synchronous_standby_names = '\(standby)'")
            try await sessions.connection.execute(script: "SELECT pg_reload_conf()")
            let shown = Statement("shown_\(standby)", "SELECT current_setting('synchronous_standby_names')")
            try await waitUntil("the server has read its configuration") {
                try await sessions.connection.run(Query(shown)).read(0, 0, as: String.self) == standby
            }
        }

        /// Three mutations. The later ones reference the first.
        func drafts() -> [Draft] {
            let local = UUID().quoted
            return [
                worker.draft(1, ["local_id": local]),
                worker.draft(2, ["payload": #"{"of":\#(local)}"#, "dependency_ids": "[\(local)]"]),
                worker.draft(3, ["operation": #""update""#, "local_id": local]),
            ]
        }

        func expectOnce(_ replies: [Reply], _ reopened: DatabaseSessions? = nil) async throws {
            for reply in replies {
                #expect(reply.status == 200, "\(reply.text)")
                #expect(reply.statuses == ["succeeded", "succeeded", "succeeded"])
                #expect(reply.results.map { $0["replayed"]?.bool } == [true, true, true])
                #expect(reply.results.map { $0["revision"]?.int64 } == [1, 1, 1])
                #expect(reply.results.map { $0["version"]?.int64 } == [1, 1, 2])
                #expect(reply.json?["accepted_sequence"]?.int64 == 3)
            }
            let first = replies.first?.results.map { $0["server_id"]?.string }
            for reply in replies { #expect(reply.results.map { $0["server_id"]?.string } == first) }
            let changes = try await worker.get("/v1/changes").changes
            #expect(Set(changes.map { $0["id"]?.string }) == Set(first ?? []))
            #expect(changes.count == 2)
            let counts = Statement(
                "lost_counts",
                """
                SELECT (SELECT count(*) FROM mutations), (SELECT count(*) FROM entities),
                    (SELECT count(*) FROM id_mappings), (SELECT sum(version)::bigint FROM entities),
                    (SELECT next_position FROM lanes)
                """
            )
            let rows = try await (reopened ?? sessions).connection.run(Query(counts))
            #expect(try (0..<5).map { try rows.read(0, $0, as: Int64.self) } == [3, 2, 2, 3, 4])
        }

        func close() async throws {
            #expect(try await gateway.terminate() == 0)
            await sessions.close()
            await cluster.close()
        }
    }

    @Test func `a mutation is stored once if the gateway is killed between commit and response`() async throws {
        let fixture = try await Fixture()
        let drafts = fixture.drafts()
        try await fixture.hold(true)
        let lost = Task { try await fixture.worker.push(drafts) }
        try await fixture.sessions.awaitCommit(to: "mutations")
        try await fixture.gateway.crash()
        await #expect(throws: (any Error).self) { try await lost.value }
        try await fixture.sessions.terminateOthers()
        try await fixture.hold(false)

        try fixture.gateway.restart()
        try await fixture.gateway.waitUntilReady()
        let replies = [try await fixture.worker.push(drafts), try await fixture.worker.push(drafts)]
        try await fixture.expectOnce(replies)
        try await fixture.close()
    }

    @Test func `a mutation is stored once if PostgreSQL crashes after the commit`() async throws {
        let fixture = try await Fixture()
        let drafts = fixture.drafts()
        try await fixture.hold(true)
        async let answer = fixture.worker.push(drafts)
        try await fixture.sessions.awaitCommit(to: "mutations")
        try await fixture.sessions.connection.execute(script: "ALTER SYSTEM SET synchronous_standby_names = ''")
        try await fixture.cluster.stop(immediate: true)
        // the outcome is unknown, so the gateway must not report the push as rejected or accepted
        let unknown = try await answer
        #expect(unknown.status == 503, "\(unknown.text)")
        #expect(unknown.code == "store_unavailable")
        #expect(unknown.header("retry-after").count == 1)
        try await fixture.cluster.start()
        try await fixture.gateway.waitUntilReady()

        let reply = try await untilAvailable { try await fixture.worker.push(drafts) }
        let replies = [reply, try await untilAvailable { try await fixture.worker.push(drafts) }]
        let reopened = try await DatabaseSessions(fixture.database)
        try await fixture.expectOnce(replies, reopened)
        await reopened.close()
        try await fixture.close()
    }

    /// The gateway keeps running while its session ends, and determines the outcome of the commit itself.
    @Test func `the gateway determines the outcome of a commit whose session ended`() async throws {
        let fixture = try await Fixture()
        let drafts = fixture.drafts()
        try await fixture.hold(true)
        async let answer = fixture.worker.push(drafts)
        try await fixture.sessions.awaitCommit(to: "mutations")
        try await fixture.sessions.connection.execute(script: "ALTER SYSTEM SET synchronous_standby_names = ''")
        try await fixture.sessions.connection.execute(script: "SELECT pg_reload_conf()")
        try await fixture.sessions.terminateOthers()

        let first = try await answer
        #expect(first.status == 200, "\(first.text)")
        #expect(first.statuses == ["succeeded", "succeeded", "succeeded"])
        try await fixture.expectOnce([try await fixture.worker.push(drafts)])
        try await fixture.close()
    }

    /// The wait for a standby that does not exist ends at the statement's time-out, and the commit is only local.
    @Test func `a commit that is not replicated is not acknowledged`() async throws {
        let fixture = try await Fixture(settings: ["SLUICE_STATEMENT_SECONDS": "5"])
        let drafts = fixture.drafts()
        try await fixture.hold(true)
        let refused = try await fixture.worker.push(drafts)
        #expect(refused.status == 503, "\(refused.text)")
        #expect(refused.code == "store_unavailable")
        #expect(refused.header("retry-after").count == 1)
        try await waitUntil("it is not ready") {
            try await send(.GET, fixture.gateway.operations + "/readyz").status == 503
        }
        try await fixture.hold(false)
        let reply = try await untilAvailable { try await fixture.worker.push(drafts) }
        try await fixture.expectOnce([reply])
        try await fixture.gateway.waitUntilReady()
        try await fixture.close()
    }

    /// The response is lost because the client disconnects before it arrives.
    @Test func `repeats an unread response`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        let gateway = try await GatewayProcess.start(database: database.uri)
        let worker = try await SingleWorker(gateway)
        let draft = worker.draft(1)
        let body = worker.envelope([draft])
        let phone = try RawConnection(port: gateway.port)
        await phone.send(
            "POST /v1/mutations HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer \(worker.token)\r\n"
                + "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
        )
        let sessions = try await DatabaseSessions(database)
        let committed = Statement("committed", "SELECT count(*) FROM mutations")
        try await waitUntil("it is committed", every: .milliseconds(1)) {
            try await sessions.connection.run(Query(committed)).read(0, 0, as: Int64.self) > 0
        }
        try await gateway.crash()
        phone.reset()
        try gateway.restart()
        try await gateway.waitUntilReady()
        let reply = try await worker.push([draft])
        #expect(reply.status == 200)
        #expect(reply.results.map { $0["replayed"]?.bool } == [true])
        #expect(try await worker.get("/v1/changes").changes.count == 1)
        #expect(try await gateway.terminate() == 0)
        await sessions.close()
    }
}
