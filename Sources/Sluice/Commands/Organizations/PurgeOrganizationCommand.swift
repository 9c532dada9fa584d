import ArgumentParser
import Foundation
import JSONText
import SyncModel
import SyncStore

/// Deletes a tenant.
struct PurgeOrganizationCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "purge",
        abstract: "Delete an organization and everything of it, for good.",
        discussion: """
            EXAMPLE
              sluice organizations purge 0192f0c1-2345-7abc-8def-0123456789ab --yes

            A purge that was cut off goes on when it is run again.
            """
    )

    @Argument(help: "The organization's UUID.", transform: uuidArgument)
    var id: UUID

    @Flag(help: "Do it. Without this, only what would be deleted is said.")
    var yes = false

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        guard yes else {
            let found = try await options.run { administration throws(Problem) in
                try await administration.organization(id)
            }
            guard let found, let root = try? JSONTree(parsing: found).root else {
                throw AdministrationOptions.unknown(id)
            }
            let name = root["name"]?.string ?? ""
            throw Terminal.failure(
                "this deletes \"\(name)\" (\(id.lowercased)) and all of its data; confirm with --yes"
            )
        }
        let isPurged = try await options.run { administration throws(Problem) in try await administration.purge(id) }
        guard isPurged else { throw AdministrationOptions.unknown(id) }
        let json = AdministrationOptions.body {
            $0.member("id", id)
            $0.member("purged", true)
        }
        Terminal.say(options.json ? String(decoding: json, as: UTF8.self) : "\(id.lowercased) is purged")
    }
}
