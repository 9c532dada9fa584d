import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncModel
import TestSupport
import Testing

/// `/admin/retention`, and `sluice retention`.
@Suite(.timeLimit(.minutes(10))) struct AdminRetentionTests {
    private static let path = "/admin/retention"

    /// Returns a scene a month after three creates, a delete and a rejected entry of Ada, and a week after a create of
    /// Eve.
    private static func oldFixture(retains: Bool = false) async throws -> TwoTenantFixture {
        let fixture = try await TwoTenantFixture(retains: retains)
        let contact = UUID()
        let stranger = ["local_id": UUID().quoted, "payload": "{}"]
        _ = try await fixture.ada.push([
            fixture.ada.create(local: contact), fixture.ada.create(),
            fixture.ada.draft("delete", "task", ["local_id": contact.quoted]),
            fixture.ada.draft("update", "task", stranger),
        ])
        fixture.gateway.clock.advance(seconds: 23 * 86_400 - 2)
        let eve = try await fresh(fixture.eve)
        _ = try await eve.push([eve.create()])
        fixture.gateway.clock.advance(seconds: 7 * 86_400 + 3)
        return fixture
    }

    /// The same user with a token that has not expired.
    private static func fresh(_ worker: SyncWorker) async throws -> SyncWorker {
        try await SyncWorker(worker.gateway, organization: worker.organization, user: worker.user)
    }

    @Test func `a preview of retention reports the expired rows and deletes nothing`() async throws {
        let fixture = try await Self.oldFixture()
        for _ in 0..<2 {
            let reply = try await fixture.operate(.GET, Self.path)
            #expect(reply.status == 200)
            let json = try #require(reply.json)
            #expect(
                json.names == [
                    "payload_seconds", "record_seconds", "audit_seconds", "running_since", "next_run_at", "last_run_at",
                    "last_run",
                    "due", "due_is_complete",
                ]
            )
            #expect(json["payload_seconds"]?.int64 == 604_800 && json["record_seconds"]?.int64 == 2_592_000)
            #expect(json["running_since"]?.isNull == true && json["last_run_at"]?.isNull == true)
            #expect(
                json["due"]?.text
                    == #"{"records":3,"payloads":1,"unsettled":0,"rejections":1,"tombstones":1,"channels":0,"mappings":0,"deliveries":0,"audit":0}"#
            )
            #expect(json["due_is_complete"]?.bool == true)
        }
    }

    @Test func `an operator can trigger a retention run`() async throws {
        let fixture = try await Self.oldFixture(retains: true)
        let asked = try await fixture.operate(.POST, Self.path)
        #expect(asked.status == 202)
        #expect(asked.json?.names.last == "last_run")
        var done: JSONValue?
        while done?["last_run"]?["records"]?.int64 != 3 {
            done = try await fixture.operate(.GET, Self.path).json
        }
        #expect(done?["last_run_at"]?.string == fixture.gateway.clock.now.rfc3339)
        #expect(done?["next_run_at"]?.string == fixture.gateway.clock.now.adding(seconds: 3_600).rfc3339)
        #expect(done?["due"]?["records"]?.int64 == 0)
        // Eve's entity and Ada's entity that was not deleted remain
        for worker in [fixture.ada, fixture.eve] {
            let changes = try await Self.fresh(worker).get("/v1/changes").json?["changes"]
            #expect(changes?.elements?.count == 1)
        }
    }

    @Test func `only the operator may access retention, and only without parameters`() async throws {
        let fixture = try await TwoTenantFixture()
        for method in [HTTPMethod.GET, .POST] {
            let reply = try await send(method, fixture.gateway.operations + Self.path, token: fixture.ada.token)
            #expect(reply.status == 401)
            #expect(try await send(method, fixture.gateway.operations + Self.path).status == 401)
            expectProblem(try await fixture.operate(method, Self.path + "?dry=1"), .invalidRequest)
            let outside = try await send(method, fixture.gateway.address + Self.path, token: fixture.ada.token)
            #expect(outside.status == 404)
        }
        #expect(try await fixture.operate(.DELETE, Self.path).status == 405)
    }

    @Test func `the command counts deleted rows and does not run concurrently`() async throws {
        let fixture = try await Self.oldFixture()
        // the command uses the system's clock, which is later than the test's, so all rows have expired
        let environment = [
            "SLUICE_DATABASE_URL": fixture.gateway.database.uri, "SLUICE_RETENTION_DAYS": "0.01",
            "SLUICE_RETENTION_SUCCEEDED_DAYS": "0.01",
        ]
        try await fixture.execute(
            """
            UPDATE mutations SET synced_at = '2025-01-01T00:00:00Z' WHERE synced_at IS NOT NULL;
            UPDATE rejections SET rejected_at = '2025-01-01T00:00:00Z';
            UPDATE entities SET updated_at = '2025-01-01T00:00:00Z'
            """
        )
        let dry = try await Program.run(["retention", "--dry-run", "--json"], environment: environment)
        #expect(dry.status == 0, "\(dry.complaint)")
        #expect(dry.output.hasPrefix(#"{"records":4,"payloads":0,"unsettled":0,"rejections":1,"tombstones":1,"#))
        try await fixture.execute(
            "UPDATE retention_runs SET owner = '\(UUID())', expires_at = now() + interval '1 minute'"
        )
        let yielding = try await Program.run(["retention"], environment: environment)
        #expect(yielding.status == 75)
        #expect(yielding.complaint.contains("another replica runs retention"))
        try await fixture.execute("UPDATE retention_runs SET owner = NULL, expires_at = NULL")
        let run = try await Program.run(["retention"], environment: environment)
        #expect(run.status == 0, "\(run.complaint)")
        #expect(run.output.contains("           4  idempotency records were deleted\n"))
        #expect(run.output.contains("           1  tombstones were deleted\n"))
        let again = try await Program.run(["retention", "--json"], environment: environment)
        #expect(again.output.hasPrefix(#"{"records":0,"payloads":0,"unsettled":0,"rejections":0,"tombstones":0,"#))
    }

    @Test func `rejects inconsistent retention settings`() async throws {
        let run = try await Program.run(
            ["retention"],
            environment: ["SLUICE_RETENTION_SUCCEEDED_DAYS": "31", "SLUICE_RETENTION_DAYS": "30"]
        )
        #expect(run.status == 78)
        #expect(run.complaint.contains("SLUICE_RETENTION_SUCCEEDED_DAYS must not be more than SLUICE_RETENTION_DAYS"))
    }
}
