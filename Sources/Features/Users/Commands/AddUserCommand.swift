import ArgumentParser
import CommandSupport
import Foundation
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

struct AddUserCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add",
        abstract: "Provision a user by the identity provider's subject, and print the user's id.",
        usage: "sluice users add <subject> --organization <organization> [<options>]",
        discussion: """
            EXAMPLE
              sluice users add 'auth0|6553da60a54af58e29493993' \\
                --organization 0192f0c1-0000-7abc-8def-0123456789ab

            For organizations whose `provisioning` is `explicit`, before or after the user's
            first token. If the issuer's tokens may contain UUIDs, a UUID is used as the
            user's id.
            """
    )

    @Argument(help: "The issuer's subject of the user, compared byte by byte.", transform: externalName)
    var subject: ByteExactString

    @Option(help: "The UUID of the organization.", transform: uuidArgument)
    var organization: UUID

    @OptionGroup var issuer: IssuerOption
    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let called = try await issuer.resolve(subject, options.options)
        guard !called.isNobody else {
            throw Terminal.failure(
                "the issuer's tokens contain only UUIDs (user_ids), so this text identifies no user",
                ExitCode.validationFailure
            )
        }
        let organization = organization
        let user = try await options.run(
            CommandAct("letUserIn", of: organization, user: called.id),
            orElse: .noOrganization(organization),
            recording: { (user: UserRow, outcome: inout AuditOutcome) in outcome.user = user.id }
        ) { administration throws(Problem) -> UserRow? in
            guard let id = called.id else {
                return try await administration.putUser(called.subject, in: organization)?.value
            }
            guard try await administration.putUser(id, in: organization) != nil else { return nil }
            return try await administration.user(id, in: organization)
        }
        options.output(user.json(), user.id.lowercased)
    }
}
