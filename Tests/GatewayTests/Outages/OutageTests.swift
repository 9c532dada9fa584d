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
        _ scene: TwoTenantFixture,
        _ draft: Draft,
        within limit: Duration = .seconds(50),
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let ada = scene.ada
        let calls: [@Sendable () async throws -> Reply] = [
            { try await ada.push([draft]) },
            { try await ada.push([draft], prefer: "wait=60") },
            { try await ada.get("/v1/mutations") },
            { try await ada.get("/v1/mutations/\(draft.id)?wait=60") },
            { try await ada.get("/v1/changes") },
            { try await ada.post("/v1/id-mappings/lookup", #"{"client_ids":[\#(UUID().quoted)]}"#) },
            { try await scene.operate(.GET, scene.admin) },
            { try await scene.operate(.PUT, scene.admin, #"{"name":"x"}"#) },
            { try await scene.operate(.DELETE, scene.admin) },
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

    private static func expectAliveButNotReady(_ scene: TwoTenantFixture) async throws {
        let live = try await send(.GET, scene.gateway.operations + "/livez")
        #expect(live.status == 200)
        let ready = try await send(.GET, scene.gateway.operations + "/readyz")
        #expect(ready.status == 503)
        #expect(ready.text == #"{"status":"unavailable","reasons":["the database cannot be reached"]}"#)
        #expect(try await send(.GET, scene.gateway.operations + "/metrics").status == 200)
    }

    /// Polls until the gateway is ready again.
    private static func waitUntilReady(_ scene: TwoTenantFixture) async throws {
        try await waitUntil("it is ready again") {
            try await send(.GET, scene.gateway.operations + "/readyz").status == 200
        }
    }

    @Test func `reports a stopped PostgreSQL and recovers after its restart`() async throws {
        let cluster = try await TestCluster.dedicated()
        let scene = try await TwoTenantFixture(
            on: try await LiveGateway.migratedDatabase(on: cluster),
            isPatient: false
        )
        let before = try await scene.ada.push([scene.ada.create()])
        #expect(before.status == 200)
        let draft = scene.ada.create()
        try await cluster.stop()
        try await Self.expectUnavailable(scene, draft)
        try await Self.expectAliveButNotReady(scene)
        // also if the organization has to be loaded again
        scene.gateway.clock.advance(seconds: 60)
        try await Self.expectUnavailable(scene, draft)
        let stranger = try await SyncWorker(scene.gateway, organization: UUID())
        expectProblem(try await stranger.get("/v1/changes"), .storeUnavailable, errors: [])

        try await cluster.start()
        try await Self.waitUntilReady(scene)
        let after = try await scene.ada.push([draft])
        #expect(after.statuses == ["succeeded"])
        #expect(after.results[0]["replayed"]?.bool == false)
        #expect(after.json?["accepted_sequence"]?.int64 == 2)
        #expect(try await scene.ada.get("/v1/changes").changes.count == 2)
        await cluster.close()
    }

    @Test func `a database that refuses every push is unavailable`() async throws {
        let scene = try await TwoTenantFixture(isPatient: false)
        let draft = scene.ada.create()
        try await scene.execute("ALTER TABLE entities RENAME TO entities_away")
        try await waitUntil("it is not ready") {
            expectProblem(try await scene.ada.push([draft]), .storeUnavailable, errors: [])
            return try await send(.GET, scene.gateway.operations + "/readyz").status == 503
        }
        try await scene.execute("ALTER TABLE entities_away RENAME TO entities")
        #expect(try await scene.ada.push([draft]).statuses == ["succeeded"])
        try await Self.waitUntilReady(scene)
    }

    @Test func `pushes in progress when PostgreSQL crashes are applied once`() async throws {
        let cluster = try await TestCluster.dedicated(isDurable: true)
        let scene = try await TwoTenantFixture(
            on: try await LiveGateway.migratedDatabase(on: cluster),
            isPatient: false
        )
        let workers = try await (0..<8).asyncMap { _ in
            try await SyncWorker(scene.gateway, organization: scene.ada.organization)
        }
        let drafts = workers.map { worker in (0..<3).map { _ in worker.create() } }
        let replies = try await withThrowingTaskGroup(of: Reply.self) { group in
            for (worker, drafts) in zip(workers, drafts) { group.addTask { try await worker.push(drafts) } }
            try await cluster.stop(immediate: true)
            return try await group.reduce(into: []) { $0.append($1) }
        }
        for reply in replies where reply.status != 200 { expectProblem(reply, .storeUnavailable, errors: []) }
        try await cluster.start()
        try await Self.waitUntilReady(scene)
        for (worker, drafts) in zip(workers, drafts) {
            #expect(try await worker.push(drafts).statuses == Array(repeating: "succeeded", count: 3))
        }
        let changes = try await scene.ada.get("/v1/changes").changes
        #expect(changes.count == 24)
        #expect(changes.allSatisfy { $0["version"]?.int64 == 1 })
        await cluster.close()
    }

    @Test func `requests fail in bounded time if PostgreSQL is frozen`() async throws {
        let cluster = try await TestCluster.dedicated()
        let scene = try await TwoTenantFixture(
            on: try await LiveGateway.migratedDatabase(on: cluster),
            isPatient: false
        )
        #expect(try await scene.ada.push([scene.ada.create()]).status == 200)
        let draft = scene.ada.create()
        let sessions = try await DatabaseSessions(scene.gateway.database)
        let backends = try await sessions.processes()
        await sessions.close()
        #expect(!backends.isEmpty)
        try await cluster.freeze(true)
        for pid in backends { kill(pid, SIGSTOP) }
        try await Self.expectUnavailable(scene, draft)
        try await Self.expectAliveButNotReady(scene)
        for pid in backends { kill(pid, SIGCONT) }
        try await cluster.freeze(false)
        try await Self.waitUntilReady(scene)
        // a request that was frozen may fail another time; a worker retries
        var reply = try await scene.ada.push([draft])
        try await waitUntil("it is taken") {
            if reply.status == 503 { reply = try await scene.ada.push([draft]) }
            return reply.status != 503
        }
        #expect(reply.statuses == ["succeeded"], "\(reply.text)")
        #expect(try await scene.ada.get("/v1/changes").changes.count == 2)
        await cluster.close()
    }

    @Test func `requests fail in bounded time if a table is locked`() async throws {
        var patience = DatabaseTimeouts(statement: .seconds(60))
        patience.lock = .seconds(3)
        let scene = try await TwoTenantFixture(patience: patience)
        #expect(try await scene.ada.push([scene.ada.create()]).status == 200)
        let draft = scene.ada.create()
        let holder = try await scene.gateway.database.connect()
        try await holder.execute(script: "BEGIN; LOCK TABLE lanes, id_mappings IN ACCESS EXCLUSIVE MODE")
        async let push = scene.ada.push([draft])
        #expect(try await scene.ada.get("/v1/changes").status == 200, "requests without a lock continue")
        let lookup = try await scene.ada.post("/v1/id-mappings/lookup", #"{"client_ids":[\#(UUID().quoted)]}"#)
        expectProblem(lookup, .overloaded, errors: [])
        #expect(lookup.header("retry-after") == ["1"])
        try await scene.reaches(#"sluice_commit_group_retries_total{reason="contended"} 1"#)
        try await holder.execute(script: "ROLLBACK")
        holder.close()
        #expect(try await push.statuses == ["succeeded"], "a push is retried")
    }
}
