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
            \(examples)

            EXIT CODES
              0 success, 1 failure, 64 usage error, 69 database unreachable,
              75 already running, 78 configuration error
            """,
        version: Version.current,
        subcommands: subcommands
    )

    /// The commands of the gateway and of its features, in the order of the help text.
    private static let subcommands: [any ParsableCommand.Type] = {
        let order = [
            "serve", "dev", "migrate", "organizations", "users", "channels", "import", "export", "tokens", "sources",
            "keys",
            "token", "webhooks", "retention", "audit", "after-restore", "doctor", "healthcheck",
        ]
        let own: [any ParsableCommand.Type] = [
            ServeCommand.self, DevCommand.self, MigrateCommand.self, TokenCommand.self, DoctorCommand.self,
            HealthCheckCommand.self,
        ]
        func place(_ command: any ParsableCommand.Type) -> Int {
            order.firstIndex { $0 == command.configuration.commandName } ?? order.count
        }
        return (own + Assembly.features.flatMap { $0.commands }).sorted { place($0) < place($1) }
    }()

    private static let purposes: KeyValuePairs = [
        "dev": "start a gateway with a private database and a demo organization",
        "migrate": "create or upgrade the database schema",
        "serve": "run the gateway",
        "doctor": "check configuration, database, keys, upstreams and clocks",
        "users": "list, add, export, erase and join users",
        "channels": "grant, revoke and list users' channels",
        "import": "import entities from a file",
        "export": "export an organization's entities to a file",
        "token": "create a token, or explain why a token is rejected",
        "tokens": "manage tokens of programs that report external edits",
        "sources": "receive external edits without a separate program",
        "webhooks": "receive webhooks in a terminal",
        "retention": "delete expired data, or preview what would be deleted",
        "after-restore": "repair a database after restoring a backup",
        "audit": "list the actions of operators",
    ]

    /// A line for each of these commands that exists.
    private static var examples: String {
        let names = Set(subcommands.compactMap { $0.configuration.commandName })
        var lines: [String] = []
        for (name, purpose) in purposes where names.contains(name) {
            lines.append("  sluice " + name + String(repeating: " ", count: 15 - name.utf8.count) + purpose)
        }
        return lines.joined(separator: "\n")
    }

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
            let message = fullMessage(for: error)
            var shown = TerminalMessage.of(message, about: arguments)
            guard exitCode(for: error) == .validationFailure else { exit(withError: error) }
            if let command = CommandSuggestion.of(arguments) { shown += "\nDid you mean: \(command)" }
            guard shown != message else { exit(withError: error) }
            Terminal.printError(shown, from: "")
            exit(withError: ExitCode.validationFailure)
        }
    }
}

/// Finds the subcommand that an unknown word probably means.
enum CommandSuggestion {
    /// The command up to the corrected word, such as `sluice users list`; nil if each word names a subcommand, or none
    /// is close.
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
