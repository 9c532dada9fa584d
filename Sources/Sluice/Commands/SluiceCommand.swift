import ArgumentParser

/// The program: its help text and commands.
@main
struct SluiceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sluice",
        abstract: "A sync gateway for offline-first apps, on PostgreSQL.",
        discussion: """
            EXAMPLES
              sluice dev            start a gateway with a private database and a demo organization
              sluice migrate        create or upgrade the database schema
              sluice serve          run the gateway
              sluice doctor         check configuration, database, keys, upstreams and clocks
              sluice users          list, add, export, erase and join users
              sluice import         import entities from a file
              sluice export         export an organization's entities to a file
              sluice token          create a token, or explain why a token is rejected
              sluice tokens         manage tokens of programs that report external edits
              sluice sources        receive external edits without a separate program
              sluice webhooks       receive webhooks in a terminal
              sluice retention      delete expired data, or preview what would be deleted
              sluice after-restore  repair a database after restoring a backup
              sluice audit          list the actions of operators

            EXIT CODES
              0 success, 1 failure, 64 usage error, 69 database unreachable,
              75 already running, 78 configuration error
            """,
        version: Version.current,
        subcommands: [
            ServeCommand.self, DevCommand.self, MigrateCommand.self, OrganizationsCommand.self, UsersCommand.self,
            ImportCommand.self, ExportCommand.self,
            TokensCommand.self, SourcesCommand.self, KeysCommand.self, TokenCommand.self, WebhooksCommand.self,
            RetentionCommand.self, AuditCommand.self,
            AfterRestoreCommand.self,
            DoctorCommand.self,
            HealthCheckCommand.self,
        ]
    )

    static func main() async {
        let arguments = Array(CommandLine.arguments.dropFirst())
        do {
            var command = try await asyncParseAsRoot(arguments)
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
            try Terminal.requireOutput()
        } catch {
            let message = fullMessage(for: error)
            var shown = ShownMessage.of(message, about: arguments)
            guard exitCode(for: error) == .validationFailure else { exit(withError: error) }
            if let command = CommandSuggestion.of(arguments) { shown += "\nDid you mean: \(command)" }
            guard shown != message else { exit(withError: error) }
            Terminal.complain(shown, from: "")
            exit(withError: ExitCode.validationFailure)
        }
    }
}
