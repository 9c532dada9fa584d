import ArgumentParser
import CommandSupport
import FoundationEssentials
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

struct ExternalIDsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "external-ids",
        abstract: "Manage the names that identity providers use for an organization.",
        discussion: """
            EXAMPLES
              sluice organizations external-ids add 0192f0c1-2345-7abc-8def-0123456789ab \\
                org_9ybsU1dN
              sluice organizations external-ids list 0192f0c1-2345-7abc-8def-0123456789ab
              sluice organizations external-ids remove \\
                0192f0c1-2345-7abc-8def-0123456789ab org_9ybsU1dN

            Required if tokens identify an organization by another name than its UUID. Within an issuer, a name \
            belongs to only one organization. An organization has at most 100 names.
            """,
        subcommands: [AddExternalIDCommand.self, RemoveExternalIDCommand.self, ListExternalIDsCommand.self]
    )
}

/// An organization, and a name that an issuer uses for it.
struct ExternalIDArguments: ParsableArguments {
    @Argument(help: .organization, transform: uuidArgument)
    var id: UUID

    @Argument(
        help: "The name that the issuer uses for the organization, compared byte by byte.",
        transform: externalName
    )
    var name: ByteExactString

    @OptionGroup var issuer: IssuerOption
    @OptionGroup var options: AdministrationOptions

    func externalID() async throws -> ExternalID {
        ExternalID(issuer: try await issuer.resolve(options.options), id: name)
    }

    /// Changes the organization's external ids and prints the result.
    func change(
        _ name: ExternalID,
        _ relation: String,
        _ change: @escaping @Sendable ([ExternalID]) throws(Problem) -> [ExternalID]
    ) async throws {
        let id = id
        let act = CommandAct("putOrganization", of: id, ["members": "external_ids"])
        let organization = try await options.run(act, orElse: .noOrganization(id)) {
            administration throws(Problem) -> OrganizationRow? in
            try await administration.changeExternalIDs(of: id, change)
        }
        let issuer = name.issuer.string.isEmpty ? "the issuer without a name" : TerminalText.of(name.issuer.string)
        options.output(
            organization.json(),
            "\(id.lowercased) \(relation) \(TerminalText.of(name.id.string)) at \(issuer)"
        )
    }
}

struct AddExternalIDCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add",
        abstract: "Add a name to an organization.",
        discussion: """
            EXAMPLES
              sluice organizations external-ids add 0192f0c1-2345-7abc-8def-0123456789ab \\
                org_9ybsU1dN
              sluice organizations external-ids add 0192f0c1-2345-7abc-8def-0123456789ab \\
                org_9ybsU1dN --issuer https://acme.eu.auth0.com/

            Prints the name that was added; with --json, the organization. A name that the organization already has \
            is not added twice.
            """
                + HelpText.exitCodes([
                    1: HelpText.failure("The organization does not exist", "another organization has the name")
                ])
    )

    @OptionGroup var arguments: ExternalIDArguments

    func run() async throws {
        let name = try await arguments.externalID()
        try await arguments.change(name, "has the external id") { names throws(Problem) in
            names.contains(name) ? names : names + [name]
        }
    }
}

struct RemoveExternalIDCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: "Remove a name from an organization.",
        usage: "sluice organizations external-ids remove <organization> <name> [<options>]",
        discussion: """
            EXAMPLES
              sluice organizations external-ids remove \\
                0192f0c1-2345-7abc-8def-0123456789ab org_9ybsU1dN

            Tokens with this name are rejected within 5 seconds. Prints the name that was removed; with --json, the \
            organization.
            """
                + HelpText.exitCodes([
                    1: HelpText.failure("The organization does not exist", "it does not have the name")
                ])
    )

    @OptionGroup var arguments: ExternalIDArguments

    func run() async throws {
        let name = try await arguments.externalID()
        try await arguments.change(name, "no longer has the external id") { names throws(Problem) in
            guard names.contains(name) else { throw Problem(.notFound, "the organization has no such name") }
            return names.filter { $0 != name }
        }
    }
}

struct ListExternalIDsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List an organization's names.",
        discussion: """
            EXAMPLES
              sluice organizations external-ids list 0192f0c1-2345-7abc-8def-0123456789ab

            Prints one line per name: the issuer and the name.
            """ + HelpText.exitCodes([1: HelpText.failure("The organization does not exist")])
    )

    @Argument(help: .organization, transform: uuidArgument)
    var id: UUID

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let found = try await options.run { administration throws(Problem) in try await administration.organization(id)
        }
        guard let organization = found else { throw AdministrationOptions.unknown(id) }
        if options.json {
            let json = AdministrationOptions.body { $0.member("external_ids", organization.externalIDs) }
            return Terminal.output(String(decoding: json, as: UTF8.self))
        }
        for name in organization.externalIDs {
            Terminal.output("\(TerminalText.of(name.issuer.string)) \(TerminalText.of(name.id.string))")
        }
        if organization.externalIDs.isEmpty { Terminal.printError("\(id.lowercased) has no names") }
    }
}
