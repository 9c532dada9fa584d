import ArgumentParser
import JSONText
import SyncModel
import SyncStore

struct ListOrganizationsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List all organizations by id.",
        discussion: """
            EXAMPLES
              sluice organizations list
              sluice organizations list --json      one organization a line
            """
    )

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let organizations = try await options.run(AdministrationOptions.organizations)
        for organization in organizations { Terminal.say(line(organization)) }
        if organizations.isEmpty, !options.json { Terminal.complain("there are no organizations yet") }
    }

    private func line(_ organization: JSONValue) -> String {
        if options.json { return String(decoding: organization.raw, as: UTF8.self) }
        let status = organization["status"]?.string ?? ""
        let padding = String(repeating: " ", count: max(0, "suspended".count - status.count))
        return "\(organization["id"]?.string ?? "")  \(status)\(padding)  \(organization["name"]?.string ?? "")"
    }
}
