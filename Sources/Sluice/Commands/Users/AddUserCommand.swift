import ArgumentParser
import Foundation
import JSONText
import SyncHTTP
import SyncMaintenance
import SyncModel
import SyncStore

struct AddUserCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add",
        abstract: "Let a user in by what the identity provider calls them, and print their id.",
        discussion: """
            EXAMPLE
              sluice users add 'auth0|6553da60a54af58e29493993' \\
                --organization 0192f0c1-0000-7abc-8def-0123456789ab

            For organizations whose `provisioning` is `explicit`; before the user's first
            token or after it.
            """
    )

    @Argument(help: "What the issuer calls the user, byte by byte.", transform: externalName)
    var subject: ExactText

    @Option(help: "The UUID of their organization.", transform: uuidArgument)
    var organization: UUID

    @OptionGroup var issuer: IssuerOption
    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let subject = Subject(issuer: try await issuer.resolve(options.options), text: subject)
        let organization = organization
        let user = try await options.run { administration throws(Problem) in
            try await administration.putUser(subject, in: organization)?.value
        }
        guard let user else { throw AdministrationOptions.unknown(organization) }
        options.say(user.json(), user.id.lowercased)
    }
}
