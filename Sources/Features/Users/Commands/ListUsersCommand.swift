import ArgumentParser
import CommandSupport
import Foundation
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

struct ListUsersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List an organization's users by id, with their subjects at identity providers.",
        usage: "sluice users list --organization <uuid> [<options>]",
        discussion: """
            EXAMPLES
              sluice users list --organization 0192f0c1-0000-7abc-8def-0123456789ab
              sluice users list --organization 0192f0c1-0000-7abc-8def-0123456789ab \\
                --subject 'auth0|6553da60a54af58e29493993' --json
            """
    )

    @Option(help: ArgumentHelp("The UUID of the organization.", valueName: "uuid"), transform: uuidArgument)
    var organization: UUID

    @Option(help: "Only the user with this subject of the issuer.", transform: externalName)
    var subject: ByteExactString?

    @OptionGroup var issuer: IssuerOption
    @OptionGroup var options: AdministrationOptions

    func validate() throws {
        guard subject != nil || issuer.issuer == nil else {
            throw ValidationError("--issuer requires --subject.")
        }
    }

    func run() async throws {
        var wanted: IssuerOption.Called?
        if let subject { wanted = try await issuer.resolve(subject, options.options) }
        let (organization, json, called) = (organization, options.json, wanted)
        let count = try await options.run { administration throws(Problem) -> Int? in
            if let called {
                guard try await administration.organization(organization) != nil else { return nil }
                guard let user = try await called.find(administration, in: organization) else { return 0 }
                Self.output(user, json)
                return 1
            }
            var (count, next) = (0, UUID?.none)
            repeat {
                guard let page = try await administration.users(of: organization, limit: 500, from: next) else {
                    return nil
                }
                for user in page.users { Self.output(user, json) }
                count += page.users.count
                next = page.next
            } while next != nil
            return count
        }
        guard let count else { throw AdministrationOptions.unknown(organization) }
        guard count == 0, !options.json else { return }
        let place = "organization \(organization.lowercased)"
        Terminal.printError(subject == nil ? "\(place) has no users yet" : "\(place) has no user with this subject")
    }

    private static func output(_ user: UserRow, _ json: Bool) {
        if json { return Terminal.output(String(decoding: user.json(), as: UTF8.self)) }
        let state =
            user.into.map { "merged into \($0.lowercased)" } ?? (user.registeredAt == nil ? "not registered" : "")
        let names = user.names.map { name in
            let issuer = name.subject.issuer.string
            return TerminalText.of(name.subject.text.string) + (issuer.isEmpty ? "" : " of " + TerminalText.of(issuer))
        }
        let parts = [user.id.lowercased, user.lastSeenAt?.rfc3339 ?? "never seen", state] + names
        Terminal.output(parts.filter { !$0.isEmpty }.joined(separator: "  "))
    }
}
