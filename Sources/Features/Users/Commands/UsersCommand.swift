import ArgumentParser
import CommandSupport
import FoundationEssentials
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

struct UsersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "users",
        abstract: "List, add, export, erase and merge users.",
        discussion: """
            EXAMPLES
              sluice users list --organization 0192f0c1-0000-7abc-8def-0123456789ab
              sluice users add 'auth0|6553da60' --organization 0192f0c1-0000-7abc-8def-0123456789ab
              sluice users join 0192f0c1-2345-7abc-8def-0123456789ab \\
                --into 0192f0c1-2345-7abc-8def-ba9876543210 \\
                --organization 0192f0c1-0000-7abc-8def-0123456789ab

            The commands use the database of SLUICE_DATABASE_URL. Gateways apply a change
            within 5 seconds.
            """,
        subcommands: [
            ListUsersCommand.self, AddUserCommand.self, EraseUserCommand.self, ExportUserCommand.self,
            JoinUsersCommand.self,
        ]
    )
}

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

struct ExportUserCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Print all stored data of a user, one JSON object per line.",
        discussion: """
            EXAMPLE
              sluice users export 0192f0c1-2345-7abc-8def-0123456789ab \\
                --organization 0192f0c1-0000-7abc-8def-0123456789ab > ada.ndjson

            Encrypted values are decrypted: protect the output accordingly. The last line has
            the kind "end"; if it is missing, the export was interrupted.
            """
    )

    @Argument(help: "The UUID of the user.", transform: uuidArgument)
    var user: UUID

    @Option(help: "The UUID of the user's organization.", transform: uuidArgument)
    var organization: UUID

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let lane = LaneKey(organization: organization, user: user)
        try await options.withStore(
            CommandAct("exportUser", of: organization, user: user),
            orElse: .noUser(user.lowercased, in: organization)
        ) { store, _ throws(Problem) -> Void? in
            guard try await store.exports.isKnown(lane) else { return nil }
            do {
                try await store.exports.run(lane) {
                    Terminal.output(String(decoding: $0, as: UTF8.self), terminator: "")
                }
            } catch let problem as Problem {
                throw problem
            } catch {
                throw Problem(.internalError, "the export was interrupted: \(error)")
            }
            return ()
        }
    }
}
