import ArgumentParser
import Foundation
import SyncModel

struct SuspendOrganizationCommand: AsyncParsableCommand {
    static let configuration = statusCommand("suspend", "Reject an organization's requests. Its data is kept.")

    @Argument(help: "The organization's UUID.", transform: uuidArgument)
    var id: UUID

    @OptionGroup var options: AdministrationOptions

    func run() async throws { try await options.put(id, into: .suspended) }
}

struct ActivateOrganizationCommand: AsyncParsableCommand {
    static let configuration = statusCommand("activate", "Resume a suspended organization.")

    @Argument(help: "The organization's UUID.", transform: uuidArgument)
    var id: UUID

    @OptionGroup var options: AdministrationOptions

    func run() async throws { try await options.put(id, into: .active) }
}

private func statusCommand(_ name: String, _ abstract: String) -> CommandConfiguration {
    CommandConfiguration(
        commandName: name,
        abstract: abstract,
        discussion: """
            EXAMPLE
              sluice organizations \(name) 0192f0c1-2345-7abc-8def-0123456789ab
            """
    )
}
