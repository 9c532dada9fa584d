import ArgumentParser
import Foundation
import SyncModel

struct ActivateOrganizationCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "activate",
        abstract: "Serve a suspended organization again.",
        discussion: """
            EXAMPLE
              sluice organizations activate 0192f0c1-2345-7abc-8def-0123456789ab
            """
    )

    @Argument(help: "The organization's UUID.", transform: uuidArgument)
    var id: UUID

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        try await options.put(id, into: .active)
    }
}
