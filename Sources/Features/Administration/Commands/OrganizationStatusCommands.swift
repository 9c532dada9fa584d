import ArgumentParser
import CommandSupport
import Foundation
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

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

extension AdministrationOptions {
    /// Changes an organization's status and prints it.
    fileprivate func put(_ id: UUID, into status: OrganizationStatus) async throws {
        let act = CommandAct("putOrganization", of: id, ["status": status.rawValue])
        let organization = try await run(act, orElse: .noOrganization(id)) {
            administration throws(Problem) -> OrganizationRow? in
            guard try await administration.organization(id) != nil else { return nil }
            return try await administration.put(id, OrganizationUpdate(status: status)).value
        }
        output(organization.json(), "\(id.lowercased) is \(status.rawValue)")
    }
}
