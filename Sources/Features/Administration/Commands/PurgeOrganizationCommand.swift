import ArgumentParser
import CommandSupport
import Foundation
import JSONText
import SyncModel
import SyncStore

struct PurgeOrganizationCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "purge",
        abstract: "Permanently delete an organization and all of its data.",
        discussion: """
            EXAMPLES
              sluice organizations purge 0192f0c1-2345-7abc-8def-0123456789ab
              sluice organizations purge 0192f0c1-2345-7abc-8def-0123456789ab --yes

            Without --yes, it counts what would be deleted, deletes nothing, and exits with
            1. If a purge was interrupted, run the command again to continue.
            """
    )

    @Argument(help: "The organization's UUID.", transform: uuidArgument)
    var id: UUID

    @Flag(help: "Delete. Without this option, only print what would be deleted.")
    var yes = false

    @OptionGroup var options: AdministrationOptions

    private typealias Extent = [(table: String, rows: Int64)]

    func run() async throws {
        guard yes else {
            let found = try await options.run { administration throws(Problem) -> (name: String, extent: Extent)? in
                guard let organization = try await administration.organization(id) else { return nil }
                return (organization.name, try await administration.extent(of: id))
            }
            guard let found else { throw AdministrationOptions.unknown(id) }
            throw refusal(found.name, found.extent)
        }
        try await options.run(CommandAct("deleteOrganization", of: id), orElse: .noOrganization(id)) {
            administration throws(Problem) -> Void? in
            try await administration.purge(id) ? () : nil
        }
        options.output("\(id.lowercased) is purged") {
            $0.member("id", id)
            $0.member("purged", true)
        }
    }

    private func refusal(_ name: String, _ extent: Extent) -> any Error {
        if options.json {
            let json = AdministrationOptions.body {
                $0.member("id", id)
                $0.member("name", name)
                $0.member("purged", false)
                $0.name("rows")
                $0.beginObject()
                for (table, rows) in extent {
                    $0.name(table)
                    $0.int(rows)
                }
                $0.endObject()
            }
            Terminal.output(String(decoding: json, as: UTF8.self))
        }
        let counts = extent.map { table, rows in
            let isCut = rows == Administration.extentLimit
            return "\(isCut ? "at least " : "")\(rows) \(table.replacing("_", with: " "))"
        }
        let data = counts.isEmpty ? "no data" : counts.joined(separator: ", ")
        return Terminal.failure(
            "this deletes \"\(TerminalText.of(name))\" (\(id.lowercased)) and all of its data: \(data); confirm with --yes"
        )
    }
}
