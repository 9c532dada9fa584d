import ArgumentParser
import CommandSupport
import Foundation
import JSONText
import SyncHTTP
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
        let organizations = try await options.run { administration throws(Problem) in
            try await AdministrationOptions.organizations(administration)
        }
        for organization in organizations { Terminal.output(line(organization)) }
        if organizations.isEmpty, !options.json { Terminal.printError("there are no organizations yet") }
    }

    private func line(_ organization: OrganizationRow) -> String {
        if options.json { return String(decoding: organization.json(), as: UTF8.self) }
        let status = organization.status.rawValue
        let padding = String(repeating: " ", count: max(0, "suspended".count - status.count))
        return "\(organization.id.lowercased)  \(status)\(padding)  \(TerminalText.of(organization.name))"
    }
}
