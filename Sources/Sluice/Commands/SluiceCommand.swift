import ArgumentParser
import CommandSupport
import SyncModel

/// The program: its help text and commands.
@main
struct SluiceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sluice",
        abstract: "A sync gateway for offline-first apps, on PostgreSQL.",
        discussion: """
            EXAMPLES
              sluice dev
              export SLUICE_DATABASE_URL=postgresql://owner@db/sluice
              sluice migrate
              SLUICE_JWT_SECRET_FILE=/run/secrets/jwt sluice serve
              sluice doctor

            `sluice dev` starts everything for a trial. In production, run `sluice migrate`, then `sluice serve`, \
            whose help describes the gateway's settings. The help of each command, such as `sluice users list`, \
            describes its exit codes. Pages such as docs/upstreams.md are in the package's folder share/doc/sluice.

            TERMS
              entity        A record that users create and change, such as a contact.
              entity type   A kind of entity, such as contact, with its own settings.
              document      The data of an entity: a JSON object.
              mutation      A create, update, replace or delete of an entity on a device.
              payload       The data of a mutation: a document, or changes of one.
              id mapping    A device's temporary id of an entity, and its permanent id.
              push, pull    A request by which a device sends mutations, or gets changes.
              cursor        A position in the changes, from which a client continues.
              lane          A user's ordered queue of mutations in an organization.
              upstream      An organization's REST API.
              replay        To send a mutation to the upstream.
              route         The method and path of a mutation's request to the upstream.
              outcome rule  A rule that decides by a response whether a mutation succeeded.
              failed        The state of a mutation that was refused.
              conflict      The state of a mutation whose entity was changed elsewhere.
              settle        To retry, discard or resolve a failed or conflicting mutation.
              source        A configured origin of changes made outside of Sluice.
              channel       A named part of an organization's entities, such as project/42.
              grant         A user's right to read a channel, or also to write to it.
            """
                + HelpText.exitCodes([
                    69: "The database is unreachable.",
                    75: "Not completed: the same work is in progress elsewhere, gateways must be stopped first, or "
                        + "requests are in flight. The command's help describes what to do.",
                    78: "The configuration is invalid.",
                ]),
        version: Version.summary,
        subcommands: subcommands
    )

    /// The commands of the gateway and of its features, in the order of the help text.
    private static let subcommands: [any ParsableCommand.Type] = {
        let order = [
            "serve", "dev", "migrate", "organizations", "upstream", "users", "channels", "import", "export", "tokens",
            "sources",
            "keys",
            "token", "webhooks", "retention", "audit", "after-restore", "doctor", "bench", "healthcheck",
        ]
        let own: [any ParsableCommand.Type] = [
            ServeCommand.self, DevCommand.self, MigrateCommand.self, TokenCommand.self, DoctorCommand.self,
            BenchCommand.self, HealthCheckCommand.self,
        ]
        func place(_ command: any ParsableCommand.Type) -> Int {
            order.firstIndex { $0 == command.configuration.commandName } ?? order.count
        }
        return (own + Assembly.features.flatMap { $0.commands }).sorted { place($0) < place($1) }
    }()

    static func main() async {
        let arguments = Array(CommandLine.arguments.dropFirst())
        do {
            try await InstalledFeatures.$list.withValue(Assembly.features) {
                var command = try await asyncParseAsRoot(arguments)
                if var command = command as? any AsyncParsableCommand {
                    try await command.run()
                } else {
                    try command.run()
                }
            }
            try Terminal.requireOutput()
        } catch {
            let message = HelpText.wrapped(from: fullMessage(for: error, columns: HelpText.unlimited))
            switch exitCode(for: error) {
            case .success where !message.isEmpty:
                Terminal.output(message)
                exit(withError: ExitCode.success)
            case .validationFailure where !message.isEmpty:
                var shown = TerminalMessage.of(message, about: arguments)
                if let command = CommandSuggestion.of(arguments) { shown += "\nDid you mean: \(command)" }
                Terminal.printError(shown, from: "")
                exit(withError: ExitCode.validationFailure)
            default: exit(withError: error)
            }
        }
    }
}

/// Finds the subcommand that an unknown word probably means.
enum CommandSuggestion {
    /// Returns the command up to the corrected word, such as `sluice users list`.
    ///
    /// Returns nil if each word names a subcommand, or if no subcommand has a similar name.
    static func of(_ arguments: [String]) -> String? {
        var command: any ParsableCommand.Type = SluiceCommand.self
        var path = ["sluice"]
        for argument in arguments {
            let subcommands: [any ParsableCommand.Type] = command.configuration.subcommands
            if subcommands.isEmpty || argument.hasPrefix("-") { return nil }
            var next: (any ParsableCommand.Type)?
            var known: [String] = []
            for subcommand in subcommands {
                let names = names(of: subcommand)
                if names.contains(argument) { next = subcommand }
                known += names
            }
            if let next {
                command = next
                path.append(argument)
                continue
            }
            guard let meant = NearestName.of(argument, among: known) else { return nil }
            return (path + [meant]).joined(separator: " ")
        }
        return nil
    }

    private static func names(of command: any ParsableCommand.Type) -> [String] {
        let configuration = command.configuration
        return (configuration.commandName.map { [$0] } ?? []) + configuration.aliases
    }
}
