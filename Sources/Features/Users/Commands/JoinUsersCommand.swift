import ArgumentParser
import CommandSupport
import FoundationEssentials
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

struct JoinUsersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "join",
        abstract: "Join two users of one person: move all data of the first to the second, permanently.",
        usage: """
            sluice users join <user> --into <user> --organization <organization> [<options>]
            sluice users join --subject <subject> --into-subject <subject> --organization <organization> [<options>]
            """,
        discussion: """
            EXAMPLES
              sluice users join 0192f0c2-2345-7abc-8def-0123456789ab \\
                --into 0192f0c2-2345-7abc-8def-ba9876543210 \\
                --organization 0192f0c1-2345-7abc-8def-0123456789ab
              sluice users join --subject 'google-oauth2|1042' \\
                --into-subject 'auth0|6553da60a54af58e29493993' \\
                --organization 0192f0c1-2345-7abc-8def-0123456789ab

            For one person with two accounts. It cannot be undone, and there is no confirmation. The first user's \
            mutations are appended to the second user's queue in the same order; none is lost or repeated. Everything \
            else of the first user then belongs to the second, and tokens of both identify the second user. Users \
            cannot be joined, for example, if a failure or conflict halts the queues of both.

            While users are being joined, for at least 8 seconds, requests of both are rejected. The command waits \
            for requests in flight for at most two minutes.
            """
                + HelpText.exitCodes([
                    0: "The users are joined.",
                    1: HelpText.failure("A user does not exist", "the users cannot be joined"),
                    75: "Requests are still in flight. Run the command again now: for two minutes, new requests of "
                        + "both users are rejected, so that it can succeed.",
                ])
    )

    @Argument(help: "The UUID of the user whose data is moved, and who is removed.", transform: uuidArgument)
    var user: UUID?

    @Option(help: "Alternative to the UUID: the issuer's subject of that user.", transform: externalName)
    var subject: ByteExactString?

    @Option(help: ArgumentHelp("The UUID of the user that remains.", valueName: "user"), transform: uuidArgument)
    var into: UUID?

    @Option(
        help: ArgumentHelp(
            "Alternative to --into: the issuer's subject of the user that remains.",
            valueName: "subject"
        ),
        transform: externalName
    )
    var intoSubject: ByteExactString?

    @Option(help: .organization, transform: uuidArgument)
    var organization: UUID

    @OptionGroup var issuer: IssuerOption

    @Option(help: ArgumentHelp("Issuer of --into-subject. Default: that of --issuer.", valueName: "name"))
    var intoIssuer: String?

    @OptionGroup var options: AdministrationOptions

    private static let timeout: Duration = .seconds(120)

    func validate() throws {
        guard (user == nil) != (subject == nil) else {
            throw ValidationError("Specify the user by UUID or by --subject.")
        }
        guard (into == nil) != (intoSubject == nil) else {
            throw ValidationError("Specify the remaining user by --into or by --into-subject.")
        }
        guard subject != nil || intoSubject != nil || issuer.issuer == nil else {
            throw ValidationError("--issuer requires --subject.")
        }
        guard intoSubject != nil || intoIssuer == nil else {
            throw ValidationError("--into-issuer requires --into-subject.")
        }
    }

    /// A user who is identified by the user id, or by an issuer and a subject.
    private enum UserReference: Sendable {
        case id(UUID)
        case called(IssuerOption.Called)

        func find(_ administration: Administration, in organization: UUID) async throws(Problem) -> UUID? {
            switch self {
            case .id(let id): id
            case .called(let called): try await called.find(administration, in: organization)?.id
            }
        }
    }

    private func party(_ id: UUID?, _ subject: ByteExactString?, _ issuer: String?) async throws -> UserReference? {
        if let id { return .id(id) }
        guard let subject else { return nil }
        var option = self.issuer
        option.issuer = issuer ?? option.issuer
        return .called(try await option.resolve(subject, options.options))
    }

    func run() async throws {
        guard let user = try await party(user, subject, nil), let into = try await party(into, intoSubject, intoIssuer)
        else { return }
        let organization = organization
        typealias Joined = (user: UUID, into: UUID, join: UserJoinRow)
        let who = self.user?.lowercased ?? subject.map { TerminalText.of($0) } ?? "-"
        let joined = try await options.withStore(
            CommandAct("joinUser", of: organization, user: self.user, into: self.into),
            orElse: .noUser(who, in: organization),
            recording: { (joined: Joined, outcome: inout AuditOutcome) in
                outcome.user = joined.user
                outcome.into = joined.into
            }
        ) { store, _ throws(Problem) -> Joined? in
            guard let user = try await user.find(store.administration, in: organization) else { return nil }
            guard let into = try await into.find(store.administration, in: organization) else {
                throw MergePreconditions.unknownTarget
            }
            let join = try await store.joining.join(user, into: into, in: organization, timeout: Self.timeout)
            return join.map { (user: user, into: into, join: $0) }
        }
        guard joined.join.state != .closing else {
            throw Terminal.failure(
                "requests are still in flight; both users are rejected for two minutes; run it again to continue",
                Terminal.tryAgain
            )
        }
        options.output(joined.join.json(), "\(joined.user.lowercased) is joined into \(joined.into.lowercased)")
    }
}
