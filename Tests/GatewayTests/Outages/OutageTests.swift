import Foundation
import GatewaySupport
import Glibc
import JSONText
import NIOHTTP1
import OperatorsFeature
import Postgres
import SyncModel
import SyncStore
import TestSupport
import Testing

/// PostgreSQL is down or does not respond.
@Suite struct OutageTests {
    /// While the store is unavailable, every call of a client is answered within this time. It is ten times the
    /// contract's five seconds, for slow machines, and less than a client's time-out.
    private static func expectUnavailable(
        _ fixture: TwoTenantFixture,
        _ draft: Draft,
        within limit: Duration = .seconds(50),
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let ada = fixture.ada
        let calls: [@Sendable () async throws -> Reply] = [
            { try await ada.push([draft]) },
            { try await ada.push([draft], prefer: "wait=60") },
            { try await ada.get("/v1/mutations") },
            { try await ada.get("/v1/mutations/\(draft.id)?wait=60") },
            { try await ada.get("/v1/changes") },
            { try await ada.post("/v1/id-mappings/lookup", #"{"client_ids":[\#(UUID().quoted)]}"#) },
            { try await fixture.operate(.GET, fixture.admin) },
            { try await fixture.operate(.PUT, fixture.admin, #"{"name":"x"}"#) },
            { try await fixture.operate(.DELETE, fixture.admin) },
        ]
        try await withThrowingTaskGroup(of: (Reply, Duration).self) { group in
            for call in calls {
                group.addTask {
                    let start = ContinuousClock.now
                    return (try await call(), .now - start)
                }
            }
            for try await (reply, time) in group {
                expectProblem(reply, .storeUnavailable, errors: [], sourceLocation: sourceLocation)
                #expect(reply.header("retry-after") == ["2"], sourceLocation: sourceLocation)
                #expect(time < limit, sourceLocation: sourceLocation)
            }
        }
    }

    private static func expectAliveButNotReady(_ fixture: TwoTenantFixture) async throws {
        let live = try await send(.GET, fixture.gateway.operations + "/livez")
        #expect(live.status == 200)
        let ready = try await send(.GET, fixture.gateway.operations + "/readyz")
        #expect(ready.status == 503)
        #expect(ready.text == #"{"status":"unavailable","reasons":["the database cannot be reached"]}"#)
        #expect(try await send(.GET, fixture.gateway.operations + "/metrics").status == 200)
    }

    /// Polls until the gateway is ready again.
    private static func waitUntilReady(_ fixture: TwoTenantFixture) async throws {
        try await waitUntil("it is ready again") {
            try await send(.GET, fixture.gateway.operations + "/readyz").status == 200
        }
    }

    @Test func `reports a stopped PostgreSQL and recovers after its restart`() async throws {
        let cluster = try await TestCluster.dedicated()
        let fixture = try await TwoTenantFixture(
            on: try await LiveGateway.migratedDatabase(on: cluster),
            isPatient: false
        )
        let before = try await fixture.ada.push([fixture.ada.create()])
        #expect(before.status == 200)
        let draft = fixture.ada.create()
        try await cluster.stop()
        try await Self.expectUnavailable(fixture, draft)
        try await Self.expectAliveButNotReady(fixture)
        // the responses are the same if the organization has to be loaded again
        fixture.gateway.clock.advance(seconds: 60)
        try await Self.expectUnavailable(fixture, draft)
        let stranger = try await SyncWorker(fixture.gateway, organization: UUID())
        expectProblem(try await stranger.get("/v1/changes"), .storeUnavailable, errors: [])

        try await cluster.start()
        try await Self.waitUntilReady(fixture)
        let after = try await untilAvailable { try await fixture.ada.push([draft]) }
        #expect(after.statuses == ["succeeded"])
        #expect(after.results[0]["replayed"]?.bool == false)
        #expect(after.json?["accepted_sequence"]?.int64 == 2)
        #expect(try await fixture.ada.get("/v1/changes").changes.count == 2)
        await cluster.close()
    }

    @Test func `a database that refuses every push is unavailable`() async throws {
        let fixture = try await TwoTenantFixture(isPatient: false)
        let draft = fixture.ada.create()
        try await fixture.execute("ALTER TABLE entities RENAME TO entities_away")
        try await waitUntil("it is not ready") {
            expectProblem(try await fixture.ada.push([draft]), .storeUnavailable, errors: [])
            return try await send(.GET, fixture.gateway.operations + "/readyz").status == 503
        }
        try await fixture.execute("ALTER TABLE entities_away RENAME TO entities")
        #expect(try await fixture.ada.push([draft]).statuses == ["succeeded"])
        try await Self.waitUntilReady(fixture)
    }

    @Test func `pushes in progress when PostgreSQL crashes are applied once`() async throws {
        let cluster = try await TestCluster.dedicated(isDurable: true)
        let fixture = try await TwoTenantFixture(
            on: try await LiveGateway.migratedDatabase(on: cluster),
            isPatient: false
        )
        let workers = try await (0..<8).asyncMap { _ in
            try await SyncWorker(fixture.gateway, organization: fixture.ada.organization)
        }
        let drafts = workers.map { worker in (0..<3).map { _ in worker.create() } }
        let replies = try await withThrowingTaskGroup(of: Reply.self) { group in
            for (worker, drafts) in zip(workers, drafts) { group.addTask { try await worker.push(drafts) } }
            try await cluster.stop(immediate: true)
            return try await group.reduce(into: []) { $0.append($1) }
        }
        for reply in replies where reply.status != 200 { expectProblem(reply, .storeUnavailable, errors: []) }
        try await cluster.start()
        try await Self.waitUntilReady(fixture)
        for (worker, drafts) in zip(workers, drafts) {
            let reply = try await untilAvailable { try await worker.push(drafts) }
            #expect(reply.statuses == Array(repeating: "succeeded", count: 3), "\(reply.text)")
        }
        let changes = try await untilAvailable { try await fixture.ada.get("/v1/changes") }.changes
        #expect(changes.count == 24)
        #expect(changes.allSatisfy { $0["version"]?.int64 == 1 })
        await cluster.close()
    }

    @Test func `requests fail in bounded time if PostgreSQL is frozen`() async throws {
        let cluster = try await TestCluster.dedicated()
        let fixture = try await TwoTenantFixture(
            on: try await LiveGateway.migratedDatabase(on: cluster),
            isPatient: false
        )
        #expect(try await fixture.ada.push([fixture.ada.create()]).status == 200)
        let draft = fixture.ada.create()
        let sessions = try await DatabaseSessions(fixture.gateway.database)
        let backends = try await sessions.processes()
        await sessions.close()
        #expect(!backends.isEmpty)
        try await cluster.freeze(true)
        for pid in backends { kill(pid, SIGSTOP) }
        try await Self.expectUnavailable(fixture, draft)
        try await Self.expectAliveButNotReady(fixture)
        for pid in backends { kill(pid, SIGCONT) }
        try await cluster.freeze(false)
        try await Self.waitUntilReady(fixture)
        let reply = try await untilAvailable { try await fixture.ada.push([draft]) }
        #expect(reply.statuses == ["succeeded"], "\(reply.text)")
        #expect(try await fixture.ada.get("/v1/changes").changes.count == 2)
        await cluster.close()
    }

    @Test func `requests fail in bounded time if a table is locked`() async throws {
        var timeouts = DatabaseTimeouts(statement: .seconds(60))
        timeouts.lock = .seconds(3)
        let fixture = try await TwoTenantFixture(timeouts: timeouts)
        #expect(try await fixture.ada.push([fixture.ada.create()]).status == 200)
        let draft = fixture.ada.create()
        let holder = try await fixture.gateway.database.connect()
        try await holder.execute(script: "BEGIN; LOCK TABLE lanes, id_mappings IN ACCESS EXCLUSIVE MODE")
        async let push = fixture.ada.push([draft])
        #expect(try await fixture.ada.get("/v1/changes").status == 200, "requests without a lock continue")
        let lookup = try await fixture.ada.post("/v1/id-mappings/lookup", #"{"client_ids":[\#(UUID().quoted)]}"#)
        expectProblem(lookup, .overloaded, errors: [])
        #expect(lookup.header("retry-after") == ["1"])
        try await fixture.reaches(#"sluice_commit_group_retries_total{reason="contended"} 1"#)
        try await holder.execute(script: "ROLLBACK")
        holder.close()
        #expect(try await push.statuses == ["succeeded"], "a push is retried")
    }
}
