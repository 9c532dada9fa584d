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
              SLUICE_DATABASE_URL=postgresql://owner@db/sluice sluice migrate
              SLUICE_JWT_SECRET_FILE=/run/secrets/jwt sluice serve
              sluice doctor

            `sluice dev` starts everything for a trial. In production, run `sluice migrate`, then `sluice serve`, \
            whose help describes all settings. The help of each command describes its exit codes.

            TERMS
              entity    A record that users create and change, such as a contact.
              mutation  A create, update, replace or delete of an entity, made on a device.
              lane      A user's ordered queue of mutations in an organization.
              upstream  An organization's REST API.
              replay    To send a mutation to the upstream.
              channel   A named part of an organization's entities, such as project/42.
            """
                + HelpText.exitCodes([
                    69: "The database is unreachable.",
                    75: "Try again later: the same work is in progress elsewhere, gateways must be stopped first, or "
                        + "requests are in flight.",
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
