import Foundation
import GatewaySupport
import JSONText
import TestSupport
import Testing

/// The audit entries of commands, in addition to their output.
@Suite(.timeLimit(.minutes(10))) struct CommandAuditTests {
    private let fixture: TwoTenantFixture

    init() async throws {
        fixture = try await TwoTenantFixture()
    }

    private func run(_ arguments: [String]) async throws -> Program.Result {
        let environment = ["SLUICE_DATABASE_URL": fixture.gateway.database.uri, "SUDO_USER": "ida"]
        return try await Program.run(arguments, environment: environment)
    }

    private func lastAct() async throws -> JSONValue {
        try #require(try await fixture.audit("?actor=cli:ida&limit=1").first)
    }

    @Test func `a command that finds no object is audited as failed`() async throws {
        let (id, unknown, ada) = (fixture.ada.organization.lowercased, UUID().lowercased, fixture.ada.user.lowercased)
        _ = try await fixture.ada.push([fixture.ada.create()])
        let file = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString + ".ndjson").path
        try "".write(toFile: file, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(atPath: file) }
        let issuer = "https://north.example"
        let cases: [(action: String, command: [String])] = [
            ("deleteOrganization", ["organizations", "purge", unknown, "--yes"]),
            ("putOrganization", ["organizations", "suspend", unknown]),
            ("putOrganization", ["organizations", "activate", unknown]),
            ("putOrganization", ["organizations", "external-ids", "add", unknown, "org_1", "--issuer", issuer]),
            ("deleteUser", ["users", "erase", unknown, "--organization", id, "--yes"]),
            ("exportUser", ["users", "export", unknown, "--organization", id]),
            ("joinUser", ["users", "join", unknown, "--into", ada, "--organization", id]),
            ("letUserIn", ["users", "add", "auth0|ada", "--organization", unknown, "--issuer", issuer]),
            ("makeServiceToken", ["tokens", "create", unknown, "--source", "crm"]),
            ("revokeServiceToken", ["tokens", "revoke", id, unknown]),
            ("deleteSource", ["sources", "remove", id, "nosuch"]),
            ("runSource", ["sources", "run", id, "nosuch"]),
            ("importEntities", ["import", "--organization", unknown, file]),
            ("exportEntities", ["export", "--organization", unknown]),
            ("sealRows", ["keys", "seal", "--organization", unknown]),
        ]
        for (action, command) in cases {
            let result = try await run(command)
            #expect(result.status == 1 && result.output == "", "\(command) \(result.complaint)")
            let act = try await lastAct()
            #expect(act["action"]?.string == action, "\(command)")
            #expect(act["outcome"]?.text == #"{"status":"failed","code":"not_found"}"#, "\(command)")
        }
        #expect(try await fixture.audit("?actor=cli:ida").count == cases.count)
    }

    @Test func `creating an existing organization is audited as failed`() async throws {
        let id = fixture.ada.organization.lowercased
        #expect(try await run(["organizations", "create", "Acme", "--id", id]).status == 1)
        #expect(try await lastAct()["outcome"]?.text == #"{"status":"failed","code":"conflict"}"#)
        #expect(try await run(["organizations", "create", "Acme"]).status == 0)
        #expect(try await lastAct()["outcome"]?.text == #"{"status":"ok"}"#)
        let second = try await run(["organizations", "create", "Acme"])
        #expect(second.status == 1 && second.complaint.contains("--force"), "\(second.complaint)")
        #expect(try await lastAct()["outcome"]?.text == #"{"status":"failed","code":"conflict"}"#)
    }

    @Test func `a command with a partial or busy result is not audited as ok`() async throws {
        let file = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString + ".ndjson").path
        try #"{"entity_type":"contact","id":"1","document":{}}"#.appending("\n{}\n")
            .write(toFile: file, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(atPath: file) }
        #expect(try await run(["import", "--organization", fixture.ada.organization.lowercased, file]).status == 1)
        #expect(try await lastAct()["outcome"]?.text == #"{"status":"partial","left":1}"#)
        // a gateway is connected
        let restored = try await run(["after-restore", "--reason", "by mistake"])
        #expect(restored.status == 75, "\(restored.complaint)")
        let act = try await lastAct()
        #expect(act["action"]?.string == "setRightAfterRestore" && act["reason"]?.string == "by mistake")
        #expect(act["outcome"]?.text == #"{"status":"failed","code":"overloaded"}"#)
        #expect(try await run(["after-restore", "--force"]).status == 0)
        #expect(try await lastAct()["outcome"]?.text == #"{"status":"ok"}"#)
    }

    @Test func `the audit entry names the provisioned user`() async throws {
        let id = fixture.ada.organization.lowercased
        let added = try await run(
            ["users", "add", "auth0|grace", "--organization", id, "--issuer", "https://north.example"]
        )
        #expect(added.status == 0, "\(added.complaint)")
        let user = added.output.trimmingCharacters(in: .newlines)
        #expect(UUID(uuidString: user) != nil)
        let act = try await lastAct()
        #expect(act["target"]?.text == #"{"user":"\#(user)"}"# && act["outcome"]?.text == #"{"status":"ok"}"#)
    }
}
