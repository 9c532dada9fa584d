import ArgumentParser

/// The program: its help text and commands.
@main
struct SluiceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sluice",
        abstract: "A sync gateway for offline-first apps, on PostgreSQL.",
        discussion: """
            EXAMPLES
              sluice dev          try it: a database of its own and a push to paste
              sluice migrate      bring the database's schema up to date
              sluice serve        run the gateway
              sluice retention    do away with what is old, or say what that would be
              sluice users        list users, let them in, join two into one
              sluice import       bring entities in from a file
              sluice export       write an organization's entities to a file
              sluice token        make a token, or explain one that is refused
              sluice tokens       let programs bring edits that were made elsewhere
              sluice sources      let such edits come in without a program between
              sluice after-restore  set right a restored database, before gateways start
              sluice webhooks     look at webhooks in a terminal
              sluice audit        list what operators did, and why
              sluice doctor       find out what is wrong with a set-up

            EXIT CODES
              0 done, 1 failed, 64 wrong usage, 69 database not reachable,
              75 somebody else is at it just now, 78 wrong configuration
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
