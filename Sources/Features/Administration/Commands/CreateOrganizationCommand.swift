import ArgumentParser
import CommandSupport
import Foundation
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

struct CreateOrganizationCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create",
        abstract: "Create an organization and print its id.",
        discussion: """
            EXAMPLES
              sluice organizations create "Acme Ltd"
              sluice organizations create "Acme Ltd" --json \\
                --id 0192f0c1-2345-7abc-8def-0123456789ab

            Names need not be unique, but a duplicate is usually a mistake. To create a second
            organization with the same name, pass --force.
            """
    )

    @Argument(help: "Name of the organization, 1 to 200 characters.")
    var name: String

    @Option(help: "UUID of the organization. Default: a new UUID.", transform: uuidArgument)
    var id: UUID?

    @Flag(help: "Create it even if an organization has the same name.")
    var force = false

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let id = id ?? UUIDv7Generator().make(at: SystemClock.now())
        let (name, force) = (name, force)
        let act = CommandAct("putOrganization", of: id, ["members": "name"])
        let known = CommandFailure(.conflict, "organization \(id.lowercased) already exists")
        let organization = try await options.run(act, orElse: known) {
            administration throws(Problem) -> OrganizationRow? in
            guard try await administration.organization(id) == nil else { return nil }
            if !force, let other = try await administration.organization(named: name) {
                let place = "an organization named \"\(name)\" already exists: \(other.lowercased)"
                throw Problem(.conflict, "\(place); use --force to create another one")
            }
            let body = AdministrationOptions.body { $0.member("name", name) }
            return try await administration.put(id, OrganizationUpdate(body: body)).value
        }
        options.output(organization.json(), id.lowercased)
    }
}
