import ArgumentParser
import CommandSupport
import FoundationEssentials
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

struct SourcesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sources",
        abstract: "Receive changes made outside of Sluice: by webhook, from an API, or from a database.",
        discussion: """
            EXAMPLES
              sluice sources put 0192f0c1-2345-7abc-8def-0123456789ab crm crm.json
              sluice sources test 0192f0c1-2345-7abc-8def-0123456789ab crm message.json
              sluice sources list 0192f0c1-2345-7abc-8def-0123456789ab

            A source receives changes that were made outside of Sluice, such as in a CRM. No separate program \
            between the CRM and the gateway is needed. docs/ingest.md has examples of each kind: webhook, poller \
            and postgres. GET /openapi.json of the public listener, which needs no token, describes all settings.

            The commands change the database of SLUICE_DATABASE_URL. Gateways apply a change within 5 seconds.
            """,
        subcommands: [
            ListSourcesCommand.self, ShowSourceCommand.self, PutSourceCommand.self, TestSourceCommand.self,
            RunSourceCommand.self, RemoveSourceCommand.self,
        ]
    )
}

/// The arguments that identify a source: its organization and its name.
struct SourceArguments: ParsableArguments {
    @Argument(help: .organization, transform: uuidArgument)
    var organization: UUID

    @Argument(help: "The source's name: [a-z][a-z0-9_-]{0,63}.")
    var name: String

    var key: SourceKey { SourceKey(organization: organization, name: name) }

    func validate() throws {
        guard IngestSource.isValid(name) else { throw ValidationError("The name must match [a-z][a-z0-9_-]{0,63}.") }
    }

    var unknown: CommandFailure { .notFound("organization \(organization.lowercased) has no source '\(name)'") }

    /// The maximum size of a file, in bytes. Valid settings and messages are smaller.
    private static let maximumBytes = 4_194_304

    /// Returns the content of a file. If the name is `-`, reads standard input.
    static func bytes(of file: String) throws -> [UInt8] {
        let bytes = try InputFile(file).bytes(upTo: maximumBytes + 1)
        guard bytes.count <= maximumBytes else {
            throw Terminal.failure("\(file) has more than \(maximumBytes) bytes")
        }
        return bytes
    }
}

extension SourceRow {
    /// The source's line in the list.
    var line: String {
        let success = lastSuccessAt.map { "last success \($0.rfc3339)" } ?? "no success yet"
        let failure = failingSince.map { "  failing since \($0.rfc3339): \(lastError ?? "")" } ?? ""
        return "\(name)  \(kind.rawValue)  \(activity.rawValue)  \(success)\(failure)"
    }

    /// A complete description for people.
    var userMessage: String {
        var lines = [line, "settings: \(String(decoding: settings, as: UTF8.self))"]
        if let state { lines.append("progress: \(String(decoding: state, as: UTF8.self))") }
        if let lastEventAt { lines.append("last event: \(lastEventAt.rfc3339)") }
        if let nextRunAt { lines.append("next run: \(nextRunAt.rfc3339)") }
        if failureCount > 0 { lines.append("failures since the last success: \(failureCount)") }
        if let previousSecretUntil { lines.append("the previous secret is valid until \(previousSecretUntil.rfc3339)") }
        return lines.joined(separator: "\n")
    }
}

// MARK: - ListSourcesCommand

struct ListSourcesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List an organization's sources and their state.",
        discussion: """
            EXAMPLES
              sluice sources list 0192f0c1-2345-7abc-8def-0123456789ab

            Each line shows a source: its name, its kind, its state, its last success and, if it fails, the time of \
            the first failure and the reason. The states are receiving (a webhook), running (being fetched), waiting \
            (for the next run), retrying (after a failure) and disabled.
            """ + HelpText.exitCodes([1: HelpText.failure("The organization does not exist")])
    )

    @Argument(help: .organization, transform: uuidArgument)
    var organization: UUID

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let found = try await options.withStore { store, _ throws(Problem) in
            try await store.sourceAdministration.list(in: organization)
        }
        guard let sources = found else { throw AdministrationOptions.unknown(organization) }
        if options.outputJSON("sources", sources, { $0.writeMembers(to: &$1) }) { return }
        for source in sources { Terminal.output(source.line) }
        if sources.isEmpty { Terminal.printError("\(organization.lowercased) has no sources") }
    }
}

struct ShowSourceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show a source: its settings, its progress, and its last failure.",
        discussion: """
            EXAMPLES
              sluice sources show 0192f0c1-2345-7abc-8def-0123456789ab crm

            Use it to find out why a source fails. Secrets are not shown.
            """ + HelpText.exitCodes([1: HelpText.failure("The source does not exist")])
    )

    @OptionGroup var source: SourceArguments

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let key = source.key
        let found = try await options.withStore { store, _ throws(Problem) in
            try await store.sourceAdministration.source(key)
        }
        guard let found else { throw source.unknown.failure() }
        options.output(found.userMessage) { found.writeMembers(to: &$0) }
    }
}

struct RemoveSourceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: "Remove a source. Data that it delivered is kept.",
        discussion: """
            EXAMPLES
              sluice sources remove 0192f0c1-2345-7abc-8def-0123456789ab crm

            There is no confirmation. A source of kind postgres leaves its replication slot, which retains the \
            server's log: drop it with pg_drop_replication_slot. Before the removal, look up the slot's \
            name: `sluice sources show` prints it as the setting `slot`.
            """
                + HelpText.exitCodes([
                    0: "The source is removed.",
                    1: HelpText.failure("The source does not exist"),
                ])
    )

    @OptionGroup var source: SourceArguments

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let key = source.key
        let act = CommandAct("deleteSource", of: key.organization, ["name": key.name])
        try await options.withStore(act, orElse: source.unknown) { store, _ throws(Problem) -> Void? in
            try await store.sourceAdministration.delete(key) ? () : nil
        }
        options.output("\(key.name) is removed") { $0.member("name", key.name) }
    }
}

// MARK: - PutSourceCommand

struct PutSourceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "put",
        abstract: "Create a source, or replace its settings.",
        discussion: """
            EXAMPLES
              sluice sources put 0192f0c1-2345-7abc-8def-0123456789ab crm crm.json
              echo '{"kind": "webhook", "settings": {"mapping": {"rules": [
                {"entity_type": "contact", "operation": "upsert", "id": "/data/id",
                 "version": "/data/revision", "document": "/data"}]}}}' \\
                | sluice sources put 0192f0c1-2345-7abc-8def-0123456789ab crm -

            The file contains the body of PUT /admin/organizations/{id}/sources/{name}: kind (webhook, poller or \
            postgres), settings, secret, and status (enabled or disabled). docs/ingest.md has an example of each kind. \
            The kind of an existing source cannot be changed. If the file has no secret, the source keeps its present \
            secret.

            Senders post webhooks to /v1/sources/ORGANIZATION/NAME of the public listener, signed with the secret \
            (Standard Webhooks). If a new webhook source has no secret, one is generated and shown once.
            """
                + HelpText.exitCodes([
                    0: "The source is created or changed.",
                    1: "The organization does not exist, or the settings are rejected; standard error has the reason.",
                ])
    )

    @OptionGroup var source: SourceArguments

    @Argument(help: "JSON file, or - for standard input.", completion: .file())
    var file: String

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let body = try SourceArguments.bytes(of: file)
        let key = source.key
        typealias Put = (written: (row: SourceRow, isNew: Bool), generatedSecret: String?)
        let (written, generatedSecret) = try await options.withStore(
            CommandAct("putSource", of: key.organization, ["name": key.name]),
            orElse: .noOrganization(key.organization)
        ) { store, settings throws(Problem) -> Put? in
            let update = try SourceUpdate(body: body)
            try update.check(settings.webhookAddresses)
            let generatedSecret = update.generatedSecret()
            guard let written = try await store.sourceAdministration.put(key, update, defaultSecret: generatedSecret)
            else { return nil }
            return (written: written, generatedSecret: generatedSecret)
        }
        let secret = written.isNew ? generatedSecret : nil
        let result = "\(key.name) is \(written.isNew ? "created" : "changed"): \(written.row.line)"
        options.output(result + (secret.map { "\nsecret: \($0)" } ?? "")) { writer in
            written.row.writeMembers(to: &writer)
            writer.member("secret", secret)
        }
    }
}
