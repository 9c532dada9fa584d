import ArgumentParser
import CommandSupport
import FoundationEssentials
import JSONText
import SyncModel
import SyncStore

struct ReadersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "readers",
        abstract: "Allow database roles to read one organization's rows with SQL.",
        discussion: """
            EXAMPLES
              psql -c "CREATE ROLE acme_analyst LOGIN PASSWORD 'change-me'"
              sluice organizations readers add 0192f0c1-2345-7abc-8def-0123456789ab \\
                acme_analyst
              sluice organizations readers list 0192f0c1-2345-7abc-8def-0123456789ab
              sluice organizations readers remove 0192f0c1-2345-7abc-8def-0123456789ab \\
                acme_analyst

            For an organization's analysts, who query its data in PostgreSQL. The role can only read the rows of that \
            organization, including entities that only their owner sees in the app, but not upstreams and their \
            credentials. Encrypted values stay encrypted. SET and SET ROLE do not extend its access. Run `sluice \
            migrate --roles` once before.
            """,
        subcommands: [AddReaderCommand.self, RemoveReaderCommand.self, ListReadersCommand.self]
    )
}

/// The arguments for an organization whose rows a role reads.
struct ReaderArguments: ParsableArguments {
    @Argument(help: .organization, transform: uuidArgument)
    var id: UUID

    @Argument(help: "The login role.")
    var role: String

    @OptionGroup var options: AdministrationOptions
}

struct AddReaderCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add",
        abstract: "Allow a login role to read an organization's rows.",
        discussion: """
            EXAMPLES
              sluice organizations readers add 0192f0c1-2345-7abc-8def-0123456789ab \\
                acme_analyst

            The role must exist. It can read one organization only: if it already reads another, it is rejected. \
            Superusers, roles that bypass row-level security, the owner of the tables and roles of gateways are \
            rejected.
            """
                + HelpText.exitCodes([
                    0: "The role can read the organization's rows.",
                    1: HelpText.failure("The organization or the role does not exist", "the role is rejected"),
                ])
    )

    @OptionGroup var reader: ReaderArguments

    func run() async throws {
        let (id, role) = (reader.id, reader.role)
        let act = CommandAct("addReader", of: id, ["role": role])
        let isNew = try await reader.options.run(act, orElse: .noOrganization(id)) {
            administration throws(Problem) -> Bool? in
            try await administration.addReader(role, to: id)
        }
        reader.options.output("\(role) reads \(id.lowercased)" + (isNew ? "" : " already")) {
            $0.member("role", role)
            $0.member("organization_id", id)
        }
    }
}

struct RemoveReaderCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: "Revoke a role's access immediately, even for open connections.",
        discussion: """
            EXAMPLES
              sluice organizations readers remove 0192f0c1-2345-7abc-8def-0123456789ab \\
                acme_analyst

            The role itself remains. To delete it, run DROP ROLE afterwards.
            """
                + HelpText.exitCodes([
                    0: "The role can no longer read the organization's rows.",
                    1: HelpText.failure("The role does not read this organization"),
                ])
    )

    @OptionGroup var reader: ReaderArguments

    func run() async throws {
        let (id, role) = (reader.id, reader.role)
        let act = CommandAct("removeReader", of: id, ["role": role])
        try await reader.options.run(act, orElse: .notFound("\(role) does not read \(id.lowercased)")) {
            administration throws(Problem) -> Void? in
            try await administration.removeReader(role, from: id) ? () : nil
        }
        reader.options.output("\(role) no longer reads \(id.lowercased)") {
            $0.member("role", role)
            $0.member("organization_id", id)
            $0.member("removed", true)
        }
    }
}

struct ListReadersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the roles that read an organization's rows.",
        discussion: """
            EXAMPLES
              sluice organizations readers list 0192f0c1-2345-7abc-8def-0123456789ab

            Prints one role per line. A warning on standard error names each role that reads no rows because a grant \
            is missing on this server, and the command that repairs it.
            """ + HelpText.exitCodes([1: HelpText.failure("The organization does not exist")])
    )

    @Argument(help: .organization, transform: uuidArgument)
    var id: UUID

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let found = try await options.run { administration throws(Problem) in try await administration.readers(of: id) }
        guard let readers = found else { throw AdministrationOptions.unknown(id) }
        if options.outputJSON("readers", readers, Self.write) { return }
        for reader in readers { Terminal.output(TerminalText.of(reader.role)) }
        for reader in readers where !reader.isEffective {
            Terminal.printError(
                "\(TerminalText.of(reader.role)) sees no rows: a membership is missing on this server. "
                    + "Repair it: sluice organizations readers add \(id.lowercased) \(TerminalText.of(reader.role))"
            )
        }
        if readers.isEmpty { Terminal.printError("no role reads \(id.lowercased)") }
    }

    private static func write(_ reader: ReaderBinding, to writer: inout JSONWriter) {
        writer.member("role", reader.role)
        writer.member("created_at", reader.createdAt?.rfc3339)
        writer.member("effective", reader.isEffective)
    }
}
