import ArgumentParser
import CommandSupport
import FoundationEssentials
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

struct TokensCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tokens",
        abstract: "Manage tokens of programs that report changes made outside of Sluice.",
        discussion: """
            EXAMPLES
              sluice tokens create 0192f0c1-2345-7abc-8def-0123456789ab --source crm
              sluice tokens list 0192f0c1-2345-7abc-8def-0123456789ab

            A program that reports changes made outside of Sluice, such as in a CRM, sends them to POST /v1/ingest \
            with a service token of the organization. Each event id is applied once per --source, regardless of the \
            token, so a token can be replaced by another one of the same source. The name may be that of one of \
            `sluice sources`, which then shares the event ids. For users' and operators' tokens, see `sluice token`.

            The commands change the database of SLUICE_DATABASE_URL. Gateways apply a change within 5 seconds.
            """,
        subcommands: [CreateServiceTokenCommand.self, ListServiceTokensCommand.self, RevokeServiceTokenCommand.self]
    )
}

struct CreateServiceTokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create",
        abstract: "Create a service token and print it. It is shown only once.",
        discussion: """
            EXAMPLES
              sluice tokens create 0192f0c1-2345-7abc-8def-0123456789ab --source crm

            Prints the token; with --json, also its id. Sluice stores only a hash: if a token is lost, create another \
            one and revoke the lost one.
            """
                + HelpText.exitCodes([
                    1: HelpText.failure("The organization does not exist", "the output could not be written completely")
                ])
    )

    @Argument(help: .organization, transform: uuidArgument)
    var id: UUID

    @Option(help: ArgumentHelp("Source of the events, such as crm: [a-z][a-z0-9_-]{0,63}.", valueName: "name"))
    var source: String

    @OptionGroup var options: AdministrationOptions

    func validate() throws {
        guard IngestSource.isValid(source) else {
            throw ValidationError("--source must match [a-z][a-z0-9_-]{0,63}.")
        }
    }

    func run() async throws {
        let act = CommandAct("makeServiceToken", of: id, ["source": source])
        let made = try await options.run(act, orElse: .noOrganization(id)) {
            administration throws(Problem) -> (token: ServiceToken, row: ServiceTokenRow)? in
            try await administration.makeServiceToken(for: source, of: id)
        }
        options.output(made.token.text) { writer in
            made.row.writeMembers(to: &writer)
            writer.member("token", made.token.text)
        }
    }
}

struct ListServiceTokensCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List an organization's service tokens, without their secrets.",
        discussion: """
            EXAMPLES
              sluice tokens list 0192f0c1-2345-7abc-8def-0123456789ab

            Each line shows a token: its id, its source, and the times of its creation, its last use and, if revoked, \
            its revocation.
            """ + HelpText.exitCodes([1: HelpText.failure("The organization does not exist")])
    )

    @Argument(help: .organization, transform: uuidArgument)
    var id: UUID

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let found = try await options.run { administration throws(Problem) in
            try await administration.serviceTokens(of: id)
        }
        guard let tokens = found else { throw AdministrationOptions.unknown(id) }
        if options.outputJSON("service_tokens", tokens, { $0.writeMembers(to: &$1) }) { return }
        for token in tokens { Terminal.output(Self.line(token)) }
        if tokens.isEmpty { Terminal.printError("\(id.lowercased) has no service tokens") }
    }

    private static func line(_ token: ServiceTokenRow) -> String {
        let used = token.lastUsedAt.map { "used \($0.rfc3339)" } ?? "never used"
        let revoked = token.revokedAt.map { "  revoked \($0.rfc3339)" } ?? ""
        return "\(token.id.lowercased)  \(token.source)  created \(token.createdAt.rfc3339)  \(used)\(revoked)"
    }
}

struct RevokeServiceTokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke",
        abstract: "Permanently revoke a service token.",
        discussion: """
            EXAMPLES
              sluice tokens revoke 0192f0c1-2345-7abc-8def-0123456789ab \\
                0192f0c3-2345-7abc-8def-0123456789ab

            The second argument is the token's id, which `sluice tokens list` shows. Gateways reject the token within \
            5 seconds.
            """ + HelpText.exitCodes([1: HelpText.failure("The organization does not have this token")])
    )

    @Argument(help: .organization, transform: uuidArgument)
    var id: UUID

    @Argument(help: "The token's id, as the list shows it.", transform: uuidArgument)
    var token: UUID

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let act = CommandAct("revokeServiceToken", of: id, ["token_id": token.lowercased])
        let unknown = "organization \(id.lowercased) has no service token \(token.lowercased)"
        let row = try await options.run(act, orElse: .notFound(unknown)) {
            administration throws(Problem) -> ServiceTokenRow? in
            try await administration.revokeServiceToken(token, of: id)
        }
        options.output("\(token.lowercased) of \(row.source) is revoked") { row.writeMembers(to: &$0) }
    }
}
