import ArgumentParser
import CommandSupport
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

struct RunSourceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Trigger an immediate fetch, or fetch everything again.",
        usage: "sluice sources run <organization> <name> [<options>]",
        discussion: """
            EXAMPLES
              sluice sources run 0192f0c1-2345-7abc-8def-0123456789ab crm
              sluice sources run 0192f0c1-2345-7abc-8def-0123456789ab crm --from-beginning
              sluice sources run 0192f0c1-2345-7abc-8def-0123456789ab crm \\
                --from 2026-11-20T07:00:00Z

            Use it after a failure was corrected, or if changes are missing. For sources of kind poller and postgres; \
            --from requires a poller with updated_since. A gateway begins within two seconds, even during the pause \
            after a failure. Data that was applied before is not applied again. Prints the source's state; `sluice \
            sources show` shows the progress.
            """
                + HelpText.exitCodes([
                    0: "The run is scheduled.",
                    1: HelpText.failure(
                        "The source does not exist",
                        "it is of kind webhook",
                        "it cannot start from the given --from"
                    ),
                ])
    )

    @OptionGroup var source: SourceArguments

    @Flag(help: "Fetch everything again.")
    var fromBeginning = false

    @Option(
        help: ArgumentHelp("Fetch changes since then, in the form of the poller's updated_since.", valueName: "start")
    )
    var from: String?

    @OptionGroup var options: AdministrationOptions

    func validate() throws {
        if fromBeginning, from != nil { throw ValidationError("--from and --from-beginning exclude each other.") }
    }

    func run() async throws {
        let key = source.key
        let row = try await options.withStore(
            CommandAct("runSource", of: key.organization, ["name": key.name]),
            orElse: source.unknown
        ) { store, _ throws(Problem) -> SourceRow? in
            guard let found = try await store.sourceAdministration.source(key) else { return nil }
            let beginning = try beginning(of: found)
            guard let row = try await store.sourceAdministration.run(key, from: beginning) else {
                throw SourceAdministration.cannotRun(found)
            }
            return row
        }
        options.output(row.line) { row.writeMembers(to: &$0) }
    }

    private func beginning(of source: SourceRow) throws(Problem) -> SourceAdministration.Beginning {
        if fromBeginning { return .anew }
        guard let from else { return .continuing }
        // a value that is not JSON is a string, so that operators need not quote strings
        var json = Array(from.utf8)
        if (try? JSONTree(parsing: json)) == nil {
            var writer = JSONWriter()
            writer.string(from)
            json = writer.bytes
        }
        return try SourceAdministration.Beginning(from: json, of: source)
    }
}

struct TestSourceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "test",
        abstract: "Show the events that a source would create from a message or response; change nothing.",
        discussion: """
            EXAMPLES
              sluice sources test 0192f0c1-2345-7abc-8def-0123456789ab crm message.json
              curl -sS https://api.example.com/changes \\
                | sluice sources test 0192f0c1-2345-7abc-8def-0123456789ab crm -

            Use it to check the stored mapping rules of a source of kind webhook or poller. The file contains the body \
            of a webhook, or a response of the API. Prints each event, or why it would be rejected.
            """
                + HelpText.exitCodes([
                    1: HelpText.failure("The source does not exist", "it has no mapping", "an event would be rejected")
                ])
    )

    @OptionGroup var source: SourceArguments

    @Argument(help: "JSON file, or - for standard input.", completion: .file())
    var file: String

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let body = try SourceArguments.bytes(of: file)
        let key = source.key
        let events = try await options.withStore { store, settings throws(Problem) -> MappedEvents? in
            guard let row = try await store.sourceAdministration.source(key) else { return nil }
            var limits = IntakeLimits()
            limits.mutations = settings.maxMutations
            limits.payloadBytes = settings.maxPayloadBytes
            return try SourceTrial(of: body, from: row, messageID: "test", limits: limits).events
        }
        guard let events else { throw source.unknown.failure() }
        let trial = SourceTrial(events: events)
        options.output(trial.json(), Self.summary(of: events))
        if events.entries.contains(where: { if case .failure = $0.event { true } else { false } }) {
            throw ExitCode.failure
        }
    }

    private static func summary(of events: MappedEvents) -> String {
        var lines: [String] = []
        for (entry, origin) in zip(events.entries, events.origins) {
            let place = "'\(origin.place)' by rule \(origin.rule)"
            switch entry.event {
            case .success(let event):
                let entity = "\(event.entityType) \(event.entityID.text)"
                lines.append("\(place): \(event.operation.rawValue) of \(entity), event \(event.id)")
            case .failure(let problem):
                lines.append("\(place): refused")
                lines += problem.errors.map { "  '\($0.pointer)': \($0.detail)" }
            }
        }
        if events.ignored > 0 { lines.append("\(events.ignored) ignored: no rule matches") }
        return lines.isEmpty ? "no events" : lines.joined(separator: "\n")
    }
}
