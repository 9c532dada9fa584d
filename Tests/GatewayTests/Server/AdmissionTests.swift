import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncModel
import Testing

/// Access with a valid token, depending on the organizations and users that the operator created.
@Suite struct AdmissionTests {
    /// Pushes and reads are rejected in the same way, and nothing changes.
    private static func expectRefused(
        _ fixture: TwoTenantFixture,
        _ worker: SyncWorker,
        _ code: ProblemCode,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let tables = try await fixture.tables()
        let replies = [
            try await worker.push([worker.create()]), try await worker.get("/v1/mutations"),
            try await worker.get("/v1/mutations/\(UUID().lowercased)"), try await worker.get("/v1/changes"),
            try await worker.post("/v1/id-mappings/lookup", #"{"client_ids":[\#(UUID().quoted)]}"#),
            try await worker.get("/v1/id-mappings"), try await worker.get("/v1/backlog"),
            try await send(
                .PUT,
                worker.gateway.address + "/v1/devices/\(worker.device.lowercased)",
                token: worker.token
            ),
            // rejected before the body is read
            try await worker.post("/v1/mutations", "{", headers: [("Content-Type", "text/plain")]),
        ]
        for reply in replies {
            expectProblem(reply, code, errors: [], sourceLocation: sourceLocation)
            #expect(reply.header("www-authenticate").isEmpty, sourceLocation: sourceLocation)
        }
        #expect(try await fixture.tables() == tables, sourceLocation: sourceLocation)
    }

    @Test func `rejects an unknown organization until the operator creates it`() async throws {
        let fixture = try await TwoTenantFixture()
        let stranger = try await SyncWorker(fixture.gateway, organization: UUID())
        try await Self.expectRefused(fixture, stranger, .organizationUnknown)
        let path = "/admin/organizations/\(stranger.organization.lowercased)"
        #expect(try await fixture.operate(.PUT, path, "{}").status == 201)
        #expect(try await stranger.push([stranger.create()]).status == 200, "known at once, even after a rejection")
    }

    @Test func `suspension and reactivation of an organization take effect immediately`() async throws {
        let fixture = try await TwoTenantFixture()
        #expect(try await fixture.ada.push([fixture.ada.create()]).status == 200)
        #expect(try await fixture.operate(.PUT, fixture.admin, #"{"status":"suspended"}"#).status == 200)
        try await Self.expectRefused(fixture, fixture.ada, .organizationSuspended)
        try await Self.expectRefused(fixture, fixture.bob, .organizationSuspended)
        #expect(
            try await fixture.eve.push([fixture.eve.create()]).status == 200,
            "another organization is not affected"
        )
        #expect(try await fixture.operate(.PUT, fixture.admin, #"{"status":"active"}"#).status == 200)
        #expect(try await fixture.ada.get("/v1/mutations").mutations.count == 1)
        #expect(try await fixture.ada.push([fixture.ada.create()]).status == 200)
    }

    @Test func `rejects unprovisioned users if provisioning is explicit`() async throws {
        let fixture = try await TwoTenantFixture(#"{"provisioning":"explicit"}"#)
        let user = fixture.admin + "/users/\(fixture.ada.user.lowercased)"
        try await Self.expectRefused(fixture, fixture.ada, .userUnknown)
        #expect(try await fixture.operate(.PUT, user).status == 201)
        #expect(try await fixture.ada.push([fixture.ada.create()]).status == 200)
        #expect(try await fixture.ada.get("/v1/changes").changes.count == 1)
        try await Self.expectRefused(fixture, fixture.bob, .userUnknown)
        #expect(try await fixture.operate(.DELETE, user).status == 204)
        try await Self.expectRefused(fixture, fixture.ada, .userUnknown)
        #expect(try await fixture.operate(.PUT, user).status == 201)
        #expect(try await fixture.ada.get("/v1/mutations").mutations.count == 1, "the pushed mutations stayed")
    }

    @Test func `a user can read before the first push provisions the user`() async throws {
        let fixture = try await TwoTenantFixture()
        #expect(try await fixture.ada.get("/v1/changes").status == 200)
        #expect(try await fixture.ada.get("/v1/mutations").text == #"{"mutations":[],"next":null}"#)
        #expect(try await fixture.tables()["users"]?.hasPrefix("0 ") == true)
        #expect(try await fixture.ada.push([fixture.ada.create()]).status == 200)
        #expect(try await fixture.tables()["users"]?.hasPrefix("1 ") == true)
        _ = try await fixture.operate(.PUT, fixture.admin, #"{"settings":{"provisioning":"explicit"}}"#)
        #expect(try await fixture.ada.get("/v1/changes").status == 200, "a user who has pushed is known")
        try await Self.expectRefused(fixture, fixture.bob, .userUnknown)
    }

    @Test func `rejects only the mutations with unregistered entity types`() async throws {
        let fixture = try await TwoTenantFixture(#"{"entity_types":"registered"}"#)
        #expect(try await fixture.operate(.PUT, fixture.admin + "/entity-types/task", "{}").status == 201)
        let reply = try await fixture.ada.push([fixture.ada.create("task"), fixture.ada.create("note")])
        #expect(reply.statuses == ["succeeded", "rejected"])
        #expect(reply.results.last?["error"]?.errors == ["/mutations/1/entity_type entity_type_valid_enum"])
        #expect(try await fixture.operate(.GET, fixture.admin + "/entity-types/note").status == 404)
    }
}
