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
        let lines = try await options.run { administration throws(Problem) -> [String] in
            var lines: [String] = []
            var cursor: String?
            repeat {
                let page = try await administration.organizations(limit: 1_000, cursor: cursor)
                guard let root = try? JSONTree(parsing: page).root else { break }
                if let elements = root["organizations"]?.elements { lines += elements.map(line) }
                cursor = root["next"]?.string
            } while cursor != nil
            return lines
        }
        for line in lines { Terminal.say(line) }
        if lines.isEmpty, !options.json { Terminal.complain("there are no organizations yet") }
    }

    private func line(_ organization: JSONValue) -> String {
        if options.json { return String(decoding: organization.raw, as: UTF8.self) }
        let status = organization["status"]?.string ?? ""
        let padding = String(repeating: " ", count: max(0, "suspended".count - status.count))
        return "\(organization["id"]?.string ?? "")  \(status)\(padding)  \(organization["name"]?.string ?? "")"
    }
}
