import ArgumentParser
import CommandSupport

struct UsersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "users",
        abstract: "List, add, export, erase and merge users.",
        discussion: """
            EXAMPLES
              sluice users list --organization 0192f0c1-0000-7abc-8def-0123456789ab
              sluice users add 'auth0|6553da60' --organization 0192f0c1-0000-7abc-8def-0123456789ab
              sluice users join 0192f0c1-2345-7abc-8def-0123456789ab \\
                --into 0192f0c1-2345-7abc-8def-ba9876543210 \\
                --organization 0192f0c1-0000-7abc-8def-0123456789ab

            The commands use the database of SLUICE_DATABASE_URL. Gateways apply a change
            within 5 seconds.
            """,
        subcommands: [
            ListUsersCommand.self, AddUserCommand.self, EraseUserCommand.self, ExportUserCommand.self,
            JoinUsersCommand.self,
        ]
    )
}
