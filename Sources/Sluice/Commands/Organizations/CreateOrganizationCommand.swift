import ArgumentParser
import Foundation
import JSONText
import SyncHTTP
import SyncMaintenance
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
        let outcome = try await options.run(CommandAct("putOrganization", of: id, ["members": "name"])) {
            administration throws(Problem) -> Outcome in
            guard try await administration.organization(id) == nil else { return .known }
            if !force, let other = try await administration.organization(named: name) { return .sameName(other) }
            let body = AdministrationOptions.body { $0.member("name", name) }
            return .created(try await administration.put(id, OrganizationUpdate(body: body)).value)
        }
        switch outcome {
        case .created(let organization):
            options.say(organization.json(), id.lowercased)
        case .known:
            throw Terminal.failure("there is an organization \(id.lowercased) already")
        case .sameName(let other):
            throw Terminal.failure(
                "there is an organization \"\(name)\" already, \(other.lowercased); for another of that name say --force"
            )
        }
    }

    private enum Outcome: Sendable {
        case created(OrganizationRow)
        case known
        case sameName(UUID)
    }
}
