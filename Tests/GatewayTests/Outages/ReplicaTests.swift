import Foundation
import GatewaySupport
import JSONText
import Postgres
import TestSupport
import Testing

/// Two gateways on one database. Changes through one gateway wake requests that wait at the other gateway.
/// `WakeUpTests` shows that hints wake them and not polling.
@Suite(.serialized, .timeLimit(.minutes(10))) struct ReplicaTests {
    private struct Pair {
        let database: TestDatabase
        let gateways: [GatewayProcess]
        let ada: SingleWorker
        let bob: SingleWorker

        init(settings: [String: String] = [:]) async throws {
            database = try await LiveGateway.migratedDatabase()
            let first = try await GatewayProcess.start(database: database.uri, settings: settings)
            let second = try await GatewayProcess.start(database: database.uri, settings: settings)
            gateways = [first, second]
            ada = try await SingleWorker(first)
            bob = try await SingleWorker(second, organization: ada.organization)
        }

        /// Waits until both gateways have discovered each other and poll only rarely.
        func areAcquainted() async throws {
            for gateway in gateways {
                try await gateway.metric("sluice_replica_peers", reaches: 1)
                try await gateway.metric("sluice_replica_hints_arrive", reaches: 1)
            }
        }

        func end() async throws {
            for gateway in gateways { #expect(try await gateway.terminate() == 0) }
        }
    }

    @Test func `a change through one gateway wakes events, pulls and waits at the other`() async throws {
        let pair = try await Pair()
        try await pair.areAcquainted()
        let (ada, bob) = (pair.ada, pair.bob)
        // Ada's own device at the other gateway
        let elsewhere = SingleWorker(pair.gateways[1], as: ada)
        let events = try await EventListener(pair.gateways[1].address, token: ada.token)
        #expect(try await events.next()?.summary == "opening")
        async let pulled = bob.get("/v1/changes?wait=60")
        try await pair.gateways[1].metric("sluice_http_requests_in_flight", reaches: 1)
        let draft = ada.draft(1)
        let pushed = try await ada.push([draft])
        #expect(pushed.statuses == ["succeeded"])
        #expect(try await events.next(3).map(\.event) == ["mutation", "id_mapping", "changes"])
        #expect(try await pulled.changes.count == 1)

        // settling a conflict through one gateway ends a wait at the other
        let server = try #require(pushed.results.first?["server_id"]?.text)
        let update = ["operation": #""update""#, "server_id": server]
        _ = try await bob.push([bob.draft(1, update)])
        let conflict = elsewhere.draft(1, update.merging(["base_version": "1"]) { $1 })
        #expect(try await elsewhere.push([conflict]).statuses == ["conflict"])
        let waiting = elsewhere.draft(2)
        async let settled = elsewhere.push([waiting], prefer: "wait=60")
        _ = try await events.until { $0.summary == "\(waiting.id) pending" }
        let resolution = try await GatewayProcess.post(
            pair.gateways[0].address + "/v1/mutations/\(conflict.id)/resolve",
            token: ada.token,
            body: #"{"strategy":"server_wins"}"#
        )
        #expect(resolution.status == 200, "\(resolution.text)")
        #expect(try await settled.statuses == ["succeeded"])
        events.stop()
        try await pair.end()
    }

    /// A proxy between the gateway and the database may close idle connections, including the one that listens.
    @Test func `a gateway that loses its listening connection listens again`() async throws {
        let pair = try await Pair()
        try await pair.areAcquainted()
        let events = try await EventListener(pair.gateways[1].address, token: pair.ada.token)
        #expect(try await events.next()?.summary == "opening")
        let connection = try await pair.database.connect()
        for number in 1...3 {
            try await connection.execute(
                script: """
                    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE datname = current_database() AND query LIKE 'LISTEN%'
                    """
            )
            let draft = pair.ada.draft(Int64(number))
            _ = try await pair.ada.push([draft])
            _ = try await events.until { $0.summary == "\(draft.id) succeeded" }
        }
        events.stop()
        await connection.closeAndWait()
        try await pair.end()
    }

    @Test(arguments: [SIGTERM, SIGKILL])
    func `a gateway that ends closes its streams and listeners resume at the other`(signal: Int32) async throws {
        let pair = try await Pair()
        let events = try await EventListener(pair.gateways[0].address, token: pair.ada.token)
        let opening = try #require(try await events.next()?.id)
        pair.gateways[0].send(signal)
        #expect(try await events.next() == nil)
        _ = try await pair.gateways[0].end()
        let elsewhere = SingleWorker(pair.gateways[1], as: pair.ada)
        let draft = elsewhere.draft(1)
        _ = try await elsewhere.push([draft])
        let more = try await EventListener(pair.gateways[1].address, token: pair.ada.token, after: opening)
        #expect(try await more.next(2).last?.summary == "\(draft.id) succeeded")
        more.stop()
        #expect(try await pair.gateways[1].terminate() == 0)
    }
}
