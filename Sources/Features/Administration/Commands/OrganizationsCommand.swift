import ArgumentParser
import CommandSupport
import FoundationEssentials
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

struct OrganizationsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "organizations",
        abstract:
            "Create, list, suspend, activate and purge organizations; manage their external ids and readers.",
        discussion: """
            EXAMPLES
              sluice organizations create "Acme Ltd"
              sluice organizations list
              sluice organizations suspend 0192f0c1-2345-7abc-8def-0123456789ab

            An organization is a tenant, with its own users and data. The commands change the database of \
            SLUICE_DATABASE_URL. Gateways apply a change within 5 seconds.
            """,
        subcommands: [
            CreateOrganizationCommand.self, ListOrganizationsCommand.self, SuspendOrganizationCommand.self,
            ActivateOrganizationCommand.self, PurgeOrganizationCommand.self, ExternalIDsCommand.self,
            ReadersCommand.self,
        ]
    )
}

// MARK: - CreateOrganizationCommand

struct CreateOrganizationCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create",
        abstract: "Create an organization and print its id.",
        discussion: """
            EXAMPLES
              sluice organizations create "Acme Ltd"
              sluice organizations create "Acme Ltd" \\
                --id 0192f0c1-2345-7abc-8def-0123456789ab --json

            Prints the organization's UUID, which tokens and the other commands use; with --json, the organization. \
            Names need not be unique, but a duplicate is usually a mistake. To create a second organization with the \
            same name, use --force.
            """ + HelpText.exitCodes([1: HelpText.failure("An organization with this name or UUID already exists")])
    )

    @Argument(help: "Name of the organization, 1 to 200 characters.")
    var name: String

    @Option(help: "UUID of the organization. Default: a new UUID.", transform: uuidArgument)
    var id: UUID?

    @Flag(help: "Create it even if an organization has the same name.")
    var force = false

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let id = id ?? UUIDv7Generator().make(at: SystemClock.now())
        let (name, force) = (name, force)
        let act = CommandAct("putOrganization", of: id, ["members": "name"])
        let known = CommandFailure(.conflict, "organization \(id.lowercased) already exists")
        let organization = try await options.run(act, orElse: known) {
            administration throws(Problem) -> OrganizationRow? in
            guard try await administration.organization(id) == nil else { return nil }
            if !force, let other = try await administration.organization(named: name) {
                let place = "an organization named \"\(name)\" already exists: \(other.lowercased)"
                throw Problem(.conflict, "\(place); use --force to create another one")
            }
            let body = AdministrationOptions.body { $0.member("name", name) }
            return try await administration.put(id, OrganizationUpdate(body: body)).value
        }
        options.output(organization.json(), id.lowercased)
    }
}

struct ListOrganizationsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List all organizations by id.",
        discussion: """
            EXAMPLES
              sluice organizations list
              sluice organizations list --json | jq -r .id

            Prints one line per organization: its UUID, its status and its name; with --json, one JSON object per \
            line.
            """ + HelpText.exitCodes([:])
    )

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let organizations = try await options.run { administration throws(Problem) in
            try await AdministrationOptions.organizations(administration)
        }
        for organization in organizations { Terminal.output(line(organization)) }
        if organizations.isEmpty, !options.json { Terminal.printError("there are no organizations yet") }
    }

    private func line(_ organization: OrganizationRow) -> String {
        if options.json { return String(decoding: organization.json(), as: UTF8.self) }
        let status = organization.status.rawValue
        let padding = String(repeating: " ", count: max(0, "suspended".count - status.count))
        return "\(organization.id.lowercased)  \(status)\(padding)  \(TerminalText.of(organization.name))"
    }
}

// MARK: - SuspendOrganizationCommand

struct SuspendOrganizationCommand: AsyncParsableCommand {
    static let configuration = statusCommand(
        "suspend",
        "Reject an organization's requests. Its data is kept.",
        "Use it to stop a tenant that causes problems. Apps receive 403 and keep their data. Nothing is sent to the "
            + "upstream or to webhooks, and sources are paused."
    )

    @Argument(help: .organization, transform: uuidArgument)
    var id: UUID

    @OptionGroup var options: AdministrationOptions

    func run() async throws { try await options.put(id, into: .suspended) }
}

struct ActivateOrganizationCommand: AsyncParsableCommand {
    static let configuration = statusCommand(
        "activate",
        "Resume a suspended organization.",
        "The organization's requests are served again, and gateways continue with its mutations."
    )

    @Argument(help: .organization, transform: uuidArgument)
    var id: UUID

    @OptionGroup var options: AdministrationOptions

    func run() async throws { try await options.put(id, into: .active) }
}

private func statusCommand(_ name: String, _ abstract: String, _ explanation: String) -> CommandConfiguration {
    CommandConfiguration(
        commandName: name,
        abstract: abstract,
        discussion: """
            EXAMPLES
              sluice organizations \(name) 0192f0c1-2345-7abc-8def-0123456789ab

            \(explanation) Prints the new status; with --json, the organization.
            """ + HelpText.exitCodes([1: HelpText.failure("The organization does not exist", "it is being purged")])
    )
}

extension AdministrationOptions {
    /// Changes an organization's status and prints the organization.
    fileprivate func put(_ id: UUID, into status: OrganizationStatus) async throws {
        let act = CommandAct("putOrganization", of: id, ["status": status.rawValue])
        let organization = try await run(act, orElse: .noOrganization(id)) {
            administration throws(Problem) -> OrganizationRow? in
            guard try await administration.organization(id) != nil else { return nil }
            return try await administration.put(id, OrganizationUpdate(status: status)).value
        }
        output(organization.json(), "\(id.lowercased) is \(status.rawValue)")
    }
}

// MARK: - PurgeOrganizationCommand

struct PurgeOrganizationCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "purge",
        abstract: "Permanently delete an organization and all of its data.",
        discussion: """
            EXAMPLES
              sluice organizations purge 0192f0c1-2345-7abc-8def-0123456789ab
              sluice organizations purge 0192f0c1-2345-7abc-8def-0123456789ab --yes

            Without --yes, the command counts what it would delete. On a terminal, it then asks for the organization's \
            UUID as confirmation; elsewhere, and with --json, it deletes nothing and exits with 1. From the start of \
            the purge, requests of the organization are rejected; it need not be suspended before. If a purge was \
            interrupted, run the command again to continue.

            The audit log is kept until it expires, without ids of users. A source of kind postgres leaves its \
            replication slot in the organization's own database: drop it with pg_drop_replication_slot. Before the \
            purge, look up the slot's name: `sluice sources show` prints it as the setting `slot`.
            """
                + HelpText.exitCodes([
                    0: "The organization is purged.",
                    1: "The organization does not exist, the deletion was not confirmed, or it failed; standard error "
                        + "has the reason.",
                ])
    )

    @Argument(help: .organization, transform: uuidArgument)
    var id: UUID

    @Flag(help: "Delete without counting and without confirmation.")
    var yes = false

    @OptionGroup var options: AdministrationOptions

    private typealias Extent = [(table: String, rows: Int64)]

    func run() async throws {
        if !yes { try await requireConfirmation() }
        try await options.run(CommandAct("deleteOrganization", of: id), orElse: .noOrganization(id)) {
            administration throws(Problem) -> Void? in
            try await administration.purge(id) ? () : nil
        }
        options.output("\(id.lowercased) is purged") {
            $0.member("id", id)
            $0.member("purged", true)
        }
    }

    /// Prints the data that would be deleted, and ends the command if the operator does not confirm the deletion.
    private func requireConfirmation() async throws {
        let found = try await options.run { administration throws(Problem) -> (name: String, extent: Extent)? in
            guard let organization = try await administration.organization(id) else { return nil }
            return (organization.name, try await administration.extent(of: id))
        }
        guard let (name, extent) = found else { throw AdministrationOptions.unknown(id) }
        if options.json {
            let json = AdministrationOptions.body {
                $0.member("id", id)
                $0.member("name", name)
                $0.member("purged", false)
                $0.name("rows")
                $0.beginObject()
                for (table, rows) in extent {
                    $0.name(table)
                    $0.int(rows)
                }
                $0.endObject()
            }
            Terminal.output(String(decoding: json, as: UTF8.self))
        }
        let counts = extent.map { table, rows in
            let isCut = rows == Administration.extentLimit
            return "\(isCut ? "at least " : "")\(rows) \(table.replacing("_", with: " "))"
        }
        let data = counts.isEmpty ? "no data" : counts.joined(separator: ", ")
        try options.requireConfirmation(
            "this permanently deletes \"\(TerminalText.of(name))\" (\(id.lowercased)) and all of its data: \(data)",
            of: id
        )
    }
}
