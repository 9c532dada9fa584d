import ArgumentParser
import CommandSupport
import FoundationEssentials
import JSONText
import SyncHTTP
import SyncModel
import SyncStore
import Tokens

struct UsersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "users",
        abstract: "List, add, export, erase and join users.",
        discussion: """
            EXAMPLES
              sluice users list --organization 0192f0c1-2345-7abc-8def-0123456789ab
              sluice users add 'auth0|6553da60' \\
                --organization 0192f0c1-2345-7abc-8def-0123456789ab
              sluice users export 0192f0c2-2345-7abc-8def-0123456789ab \\
                --organization 0192f0c1-2345-7abc-8def-0123456789ab > ada.ndjson

            The commands use the database of SLUICE_DATABASE_URL. Gateways apply a change within 5 seconds.
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
            EXAMPLES
              sluice users add 'auth0|6553da60a54af58e29493993' \\
                --organization 0192f0c1-2345-7abc-8def-0123456789ab

            Required only for organizations whose setting `provisioning` (PUT /admin/organizations/{id}) is \
            `explicit`; others register a user with the first request. The user can be added before or after the first \
            token is issued. If the issuer's tokens may contain users' UUIDs (SLUICE_JWT_USER_IDS), a subject in the \
            form of a UUID is the user's id. Prints the user's UUID; with --json, the user.
            """
                + HelpText.exitCodes([
                    1: HelpText.failure("The organization does not exist", "the user was erased"),
                    64: "Wrong usage, --issuer is missing, or the issuer's tokens contain only UUIDs and the subject "
                        + "is not a UUID.",
                ])
    )

    @Argument(help: "The issuer's subject of the user, compared byte by byte.", transform: externalName)
    var subject: ByteExactString

    @Option(help: .organization, transform: uuidArgument)
    var organization: UUID

    @OptionGroup var issuer: IssuerOption
    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let called = try await issuer.resolve(subject, options.options)
        guard !called.isUnknown else {
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
        usage: "sluice users list --organization <organization> [<options>]",
        discussion: """
            EXAMPLES
              sluice users list --organization 0192f0c1-2345-7abc-8def-0123456789ab
              sluice users list --organization 0192f0c1-2345-7abc-8def-0123456789ab \\
                --subject 'auth0|6553da60a54af58e29493993' --json

            Prints one line per user: the UUID, the time of the last request, the subjects, and whether the user is \
            not registered or was joined into another user. With --json, it prints one JSON object per line.
            """ + HelpText.exitCodes([1: HelpText.failure("The organization does not exist")])
    )

    @Option(help: .organization, transform: uuidArgument)
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
            user.into.map { "joined into \($0.lowercased)" } ?? (user.registeredAt == nil ? "not registered" : "")
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
            EXAMPLES
              sluice users export 0192f0c2-2345-7abc-8def-0123456789ab \\
                --organization 0192f0c1-2345-7abc-8def-0123456789ab > ada.ndjson

            For a person's request for their data. Encrypted values are decrypted: protect the output accordingly. The \
            last line has the kind "end"; if it is missing, the export was interrupted. The output is JSON, even \
            without --json.
            """
                + HelpText.exitCodes([
                    0: "The export is complete.",
                    1: HelpText.failure("The user does not exist", "the export was interrupted"),
                ])
    )

    @Argument(help: .user, transform: uuidArgument)
    var user: UUID

    @Option(help: .organization, transform: uuidArgument)
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

extension IssuerOption {
    /// A user who is identified by an issuer and a subject.
    struct Called: Sendable {
        let subject: Subject
        /// The user's own id, if the issuer's tokens contain user ids.
        let id: UUID?
        /// Whether every token with this subject is refused.
        let isUnknown: Bool

        /// Finds the user, who may have been created under earlier settings.
        func find(_ administration: Administration, in organization: UUID) async throws(Problem) -> UserRow? {
            if let user = try await administration.user(subject, in: organization) { return user }
            guard let id else { return nil }
            return try await administration.user(id, in: organization)
        }
    }

    /// Resolves the user whom the text identifies at the issuer.
    func resolve(_ text: ByteExactString, _ options: ConfigurationOptions) async throws -> Called {
        let subject = Subject(issuer: try await resolve(options), text: text)
        // an operator's machine may have no token settings; in this case the text is a subject
        guard let configuration = try? await options.load().tokenConfiguration() else {
            return Called(subject: subject, id: nil, isUnknown: false)
        }
        do {
            let user = try configuration.user(called: text, by: subject.issuer)
            if case .id(let id) = user { return Called(subject: subject, id: id, isUnknown: false) }
            return Called(subject: subject, id: nil, isUnknown: false)
        } catch {
            return Called(subject: subject, id: nil, isUnknown: true)
        }
    }
}
