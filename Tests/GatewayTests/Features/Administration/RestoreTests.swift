import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import Postgres
import SyncModel
import TestSupport
import Testing

/// Tests use a real pg_dump, a crash that loses all later changes, a real pg_restore, and `sluice after-restore`.
@Suite(.timeLimit(.minutes(10))) struct RestoreTests {
    /// Two tenants. Ada has tasks at an upstream and notes in the built-in store. Eve has only the built-in store.
    private struct Tenants {
        let database: TestDatabase
        let upstream: KeyProvider
        var gateway: GatewayProcess
        let ada: SingleWorker
        let eve: SingleWorker

        init() async throws {
            database = try await LiveGateway.migratedDatabase()
            upstream = try await KeyProvider(.document(#"{"id":"n-1"}"#))
            gateway = try await GatewayProcess.start(database: database.uri)
            ada = try await SingleWorker(gateway)
            eve = try await SingleWorker(gateway)
            let address = "http://127.0.0.1:\(upstream.port)"
            try await gateway.operate("/upstream", of: ada.organization, #"{"base_url":"\#(address)"}"#)
            try await gateway.operate("/entity-types/note", of: ada.organization, #"{"upstream":false}"#)
        }

        func push(_ worker: SingleWorker, _ drafts: [Draft], after: Int64? = nil) async throws -> Reply {
            var body = worker.envelope(drafts)
            if let after {
                body.replace("{\"device_id\"", with: "{\"after_sequence\":\(after),\"device_id\"", maxReplacements: 1)
            }
            return try await GatewayProcess.post(
                gateway.address + "/v1/mutations",
                token: worker.token,
                prefer: "wait=60",
                body: body
            )
        }

        func get(_ worker: SingleWorker, _ path: String, after event: String? = nil) async throws -> Reply {
            let headers = event.map { [("Last-Event-ID", $0)] } ?? []
            return try await send(.GET, gateway.address + path, token: worker.token, headers: headers)
        }

        /// Returns the entities of both tenants, without cursors.
        func view() async throws -> [String] {
            var view: [String] = []
            for worker in [ada, eve] {
                view += try await get(worker, "/v1/mutations").mutations.map(\.text)
                view += try await get(worker, "/v1/changes").changes.map(\.text)
                view += try await get(worker, "/v1/id-mappings").mappings.map(\.text)
                view.append(try await get(worker, "/v1/backlog").text)
            }
            return view
        }

        /// Returns a user's cursors of changes, mappings and events.
        func cursors(_ worker: SingleWorker) async throws -> Cursors {
            let changes = try #require(try await get(worker, "/v1/changes").next)
            let mappings = try #require(try await get(worker, "/v1/id-mappings").next)
            let listener = try await EventListener(gateway.address, token: worker.token)
            let event = try #require(try await listener.next()?.id)
            listener.stop()
            return Cursors(changes: changes, mappings: mappings, event: event)
        }
    }

    private static let forwarded = ["endpoint": #""/tasks""#]

    private struct Cursors {
        let changes: String
        let mappings: String
        let event: String
    }

    private static let binaries: String = {
        let root = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []
        return "\(root)/\(versions.compactMap(Int.init).max() ?? 15)/bin"
    }()

    private func shell(_ text: String) async throws {
        let program = try Program(shell: "exec " + text)
        let status = try await program.end()
        try #require(status == 0, "\(program.complaint)")
    }

    @Test func `restoring an older backup repeats no mutation`() async throws {
        var fixture = try await Tenants()
        let before = [fixture.ada.draft(1, Self.forwarded), fixture.ada.draft(2, ["entity_type": #""note""#])]
        #expect(try await fixture.push(fixture.ada, before).statuses == ["succeeded", "succeeded"])
        let eves = [fixture.eve.draft(1, ["payload": #"{"title":"Eve's"}"#])]
        #expect(try await fixture.push(fixture.eve, eves).statuses == ["succeeded"])
        let view = try await fixture.view()
        let old = try await fixture.cursors(fixture.ada)
        let evesOld = try await fixture.cursors(fixture.eve)
        let dump = FileManager.default.temporaryDirectory.appending(path: "sluice-\(UUID().uuidString).dump").path
        defer { try? FileManager.default.removeItem(atPath: dump) }
        try await shell("\(Self.binaries)/pg_dump -Fc --file '\(dump)' '\(fixture.database.uri)'")

        // changes after the backup
        fixture.upstream.behave(.document(#"{"id":"n-2"}"#))
        let lost = [fixture.ada.draft(3, Self.forwarded), fixture.ada.draft(4, ["entity_type": #""note""#])]
        #expect(try await fixture.push(fixture.ada, lost).statuses == ["succeeded", "succeeded"])
        let late = try await fixture.cursors(fixture.ada)
        #expect(fixture.upstream.count == 2)
        try await fixture.gateway.crash()

        let restored = try await TestDatabase.make()
        try await shell("\(Self.binaries)/pg_restore --exit-on-error --dbname '\(restored.uri)' '\(dump)'")
        let environment = ["SLUICE_DATABASE_URL": restored.uri]
        let command = try await Program.run(["after-restore"], environment: environment)
        #expect(command.status == 0, "\(command.complaint)")
        #expect(command.output.hasPrefix("2 organizations: older cursors now receive 410\n"))

        fixture.gateway = try await GatewayProcess.start(database: restored.uri)
        let busy = try await Program.run(["after-restore"], environment: environment)
        #expect(busy.status == 75, "\(busy.output)")
        #expect(busy.complaint.contains("stop them; use --force only if none"))

        #expect(try await fixture.view() == view, "all data equals the backup")
        for (worker, cursors) in [(fixture.ada, old), (fixture.ada, late), (fixture.eve, evesOld)] {
            let changes = try await fixture.get(worker, "/v1/changes?since=\(cursors.changes)")
            #expect(changes.status == 410 && changes.code == "cursor_expired", "\(changes.text)")
            let snapshot = try #require(changes.json?["snapshot"]?.string)
            #expect(try await fixture.get(worker, snapshot).status == 200)
            let mappings = try await fixture.get(worker, "/v1/id-mappings?since=\(cursors.mappings)")
            #expect(mappings.status == 410, "\(mappings.text)")
            #expect(try await fixture.get(worker, "/v1/events", after: cursors.event).status == 410)
        }

        // changes in the backup are repeats; later changes are accepted again, in one push
        let replay = try await fixture.push(fixture.ada, before)
        #expect(replay.results.allSatisfy { $0["replayed"]?.bool == true }, "\(replay.text)")
        let next = [fixture.ada.draft(5, Self.forwarded)]
        let gap = try await fixture.push(fixture.ada, next, after: 4)
        #expect(gap.status == 409 && gap.code == "sequence_gap", "\(gap.text)")
        #expect(gap.json?["expected"]?.int64 == 2)
        let resent = try await fixture.push(fixture.ada, lost, after: 2)
        #expect(resent.statuses == ["succeeded", "succeeded"], "\(resent.text)")
        #expect(resent.results.allSatisfy { $0["replayed"]?.bool == false })
        #expect(try await fixture.push(fixture.ada, lost, after: 2).results.allSatisfy { $0["replayed"]?.bool == true })
        fixture.upstream.behave(.document(#"{"id":"n-3"}"#))
        #expect(try await fixture.push(fixture.ada, next, after: 4).statuses == ["succeeded"])

        let keys = fixture.upstream.requests.map { $0.headers.first(name: "Idempotency-Key") ?? "-" }
        #expect(keys.count == 4)
        #expect(keys[1] == keys[2], "the upstream can recognize the lost mutation by its key")
        #expect(Set(keys).count == 3)
        let mutations = try await fixture.get(fixture.ada, "/v1/mutations").mutations
        #expect(mutations.count == 5)
        #expect(try await fixture.get(fixture.ada, "/v1/changes").changes.count == 5)
        #expect(try await fixture.get(fixture.eve, "/v1/changes").changes.count == 1)
        let foreign = try await fixture.get(fixture.eve, "/v1/mutations/\(lost[0].id)")
        #expect(foreign.status == 404)
        #expect(try await fixture.gateway.terminate() == 0)
    }

    @Test func `a backup restored twice rejects the cursors from between the restores`() async throws {
        var fixture = try await Tenants()
        #expect(try await fixture.push(fixture.eve, [fixture.eve.draft(1)]).statuses == ["succeeded"])
        _ = try await fixture.gateway.terminate()
        // provisional numbers of a pull may have been assigned differently between the restores
        let connection = try await fixture.database.connect()
        try await connection.execute(
            script: """
                INSERT INTO local_id_pages (organization_id, user_id, device_id, page, since_page, counters, entity_types, local_ids,
                    server_ids, are_integers)
                VALUES ('\(fixture.eve.organization)', gen_random_uuid(), gen_random_uuid(), 7, 0, '{}', '{task}', '{1}', '{a}', '{f}')
                """
        )
        await connection.closeAndWait()
        let dump = FileManager.default.temporaryDirectory.appending(path: "sluice-\(UUID().uuidString).dump").path
        defer { try? FileManager.default.removeItem(atPath: dump) }
        try await shell("\(Self.binaries)/pg_dump -Fc --file '\(dump)' '\(fixture.database.uri)'")
        var cursors: [Cursors] = []
        for _ in 0..<2 {
            let restored = try await TestDatabase.make()
            try await shell("\(Self.binaries)/pg_restore --exit-on-error --dbname '\(restored.uri)' '\(dump)'")
            let command = try await Program.run(["after-restore"], environment: ["SLUICE_DATABASE_URL": restored.uri])
            #expect(command.status == 0, "\(command.complaint)")
            let pages = try await restored.connect()
            let marks =
                "SELECT page FROM local_id_pages WHERE num_nulls(entity_types, local_ids, server_ids, are_integers) = 4"
            #expect(try await pages.run([Query(Statement("marks", marks))])[0].read(0, 0, as: Int64.self) == 7)
            await pages.closeAndWait()
            fixture.gateway = try await GatewayProcess.start(database: restored.uri)
            for cursor in cursors {
                #expect(try await fixture.get(fixture.eve, "/v1/changes?since=\(cursor.changes)").status == 410)
            }
            cursors.append(try await fixture.cursors(fixture.eve))
            _ = try await fixture.gateway.terminate()
        }
    }

    /// The backup was made while a worker had claimed a lane and a request was in flight.
    @Test func `mutations in flight during the backup are sent again immediately`() async throws {
        var fixture = try await Tenants()
        fixture.upstream.behave(.silence)
        let body = fixture.ada.envelope([fixture.ada.draft(1, Self.forwarded)])
        let taken = try await GatewayProcess.post(
            fixture.gateway.address + "/v1/mutations",
            token: fixture.ada.token,
            body: body
        )
        #expect(taken.status == 202, "\(taken.text)")
        try await waitUntil("the request is sent") { fixture.upstream.count > 0 }
        let dump = FileManager.default.temporaryDirectory.appending(path: "sluice-\(UUID().uuidString).dump").path
        defer { try? FileManager.default.removeItem(atPath: dump) }
        try await shell("\(Self.binaries)/pg_dump -Fc --file '\(dump)' '\(fixture.database.uri)'")
        try await fixture.gateway.crash()
        let restored = try await TestDatabase.make()
        try await shell("\(Self.binaries)/pg_restore --exit-on-error --dbname '\(restored.uri)' '\(dump)'")
        let command = try await Program.run(["after-restore"], environment: ["SLUICE_DATABASE_URL": restored.uri])
        #expect(command.output.contains("1 leases of lanes released"), "\(command.output)\(command.complaint)")
        fixture.upstream.behave(.document(#"{"id":"n-1"}"#))
        // leases last two minutes, which is longer than this test waits
        fixture.gateway = try await GatewayProcess.start(database: restored.uri)
        let settled = try await GatewayProcess.post(
            fixture.gateway.address + "/v1/mutations",
            token: fixture.ada.token,
            prefer: "wait=60",
            body: body
        )
        #expect(settled.statuses == ["succeeded"], "\(settled.text)")
        let keys = Set(fixture.upstream.requests.map { $0.headers.first(name: "Idempotency-Key") })
        #expect(keys.count == 1)
        #expect(try await fixture.gateway.terminate() == 0)
    }
}
