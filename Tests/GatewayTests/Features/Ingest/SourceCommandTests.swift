import Foundation
import GatewaySupport
import JSONText
import SyncModel
import TestSupport
import Testing

/// `sluice sources`
@Suite struct SourceCommandTests {
    private let mapping = #"""
        {"kind": "webhook", "settings": {"mapping": {"rules": [
          {"entity_type": "contact", "operation": "upsert", "id": "/id", "version": "/v", "document": ""}]}}}
        """#

    private func file(_ text: String) throws -> String {
        let path = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString + ".json").path
        try text.write(toFile: path, atomically: true, encoding: .utf8)
        return path
    }

    @Test func `creates, lists, shows, tests and removes a source`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        func sluice(_ arguments: String...) async throws -> Program.Result {
            try await Program.run(arguments, environment: ["SLUICE_DATABASE_URL": database.uri])
        }
        let id = UUID().lowercased
        #expect(try await sluice("organizations", "create", "Acme", "--id", id).status == 0)
        let none = try await sluice("sources", "list", id)
        #expect(none.status == 0 && none.output == "" && none.complaint == "sluice: \(id) has no sources\n")
        let settings = try file(mapping)
        let made = try await sluice("sources", "put", id, "crm", settings)
        #expect(made.status == 0, "\(made.complaint)")
        #expect(made.output.hasPrefix("crm is created: crm  webhook  recei") && made.output.contains("secret: whsec_"))
        let again = try await sluice("sources", "put", id, "crm", settings, "--json")
        #expect(try JSONTree(parsing: Array(again.output.utf8)).root["secret"]?.isNull == true, "\(again.output)")
        let list = try await sluice("sources", "list", id)
        #expect(list.output == "crm  webhook  receiving  no success yet\n")
        let shown = try await sluice("sources", "show", id, "crm")
        #expect(shown.output.contains("settings: {") && !shown.output.contains("whsec_"))

        let good = try await sluice("sources", "test", id, "crm", try file(#"{"id": 1, "v": 2}"#))
        #expect(good.status == 0 && good.output == "'' by rule 0: upsert of contact 1, event test\n", "\(good.output)")
        let bad = try await sluice("sources", "test", id, "crm", try file(#"{"id": 1}"#))
        #expect(bad.status == 1 && bad.output.contains("'/v'"), "\(bad.output)")
        let wrong = try await sluice("sources", "put", id, "crm", try file(#"{"kind": "fax"}"#))
        #expect(wrong.status == 1 && wrong.complaint.contains("kind must be one of"), "\(wrong.complaint)")
        let idle = try await sluice("sources", "run", id, "crm")
        #expect(idle.status == 1 && idle.complaint.contains("nothing is fetched"), "\(idle.complaint)")
        let missing = try await sluice("sources", "put", id, "crm", "/nowhere.json")
        #expect(missing.status == 1 && missing.complaint.contains("/nowhere.json"), "\(missing.complaint)")

        #expect(try await sluice("sources", "remove", id, "crm").output == "crm is removed\n")
        let gone = try await sluice("sources", "show", id, "crm")
        #expect(gone.status == 1 && gone.complaint == "sluice: organization \(id) has no source 'crm'\n")
        #expect(try await sluice("sources", "list", UUID().lowercased).status == 1)
        #expect(try await sluice("sources", "show", id, "Crm").status == 64)
    }
}
