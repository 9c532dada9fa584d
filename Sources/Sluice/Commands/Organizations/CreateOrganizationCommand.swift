import AdministrationFeature
import ArgumentParser
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

            Two organizations may have one name, but seldom are they meant to: for a second
            one of a name, say --force.
            """
    )

    @Argument(help: "Its name, 1 to 200 characters.")
    var name: String

    @Option(help: "Its UUID, if it has one already; otherwise a new one.", transform: uuidArgument)
    var id: UUID?

    @Flag(help: "Create it though there is one of that name.")
    var force = false

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let id = id ?? UUIDv7Generator().make(at: SystemClock.now())
        let (name, force) = (name, force)
        let act = CommandAct("putOrganization", of: id, ["members": "name"])
        let known = NothingDone(.conflict, "there is an organization \(id.lowercased) already")
        let organization = try await options.run(act, orElse: known) {
            administration throws(Problem) -> OrganizationRow? in
            guard try await administration.organization(id) == nil else { return nil }
            if !force, let other = try await administration.organization(named: name) {
                let place = "there is an organization \"\(name)\" already, \(other.lowercased)"
                throw Problem(.conflict, "\(place); for another of that name say --force")
            }
            let body = AdministrationOptions.body { $0.member("name", name) }
            return try await administration.put(id, OrganizationUpdate(body: body)).value
        }
        options.say(organization.json(), id.lowercased)
    }
}
