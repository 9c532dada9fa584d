import ArgumentParser

struct TokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: "Create a token, or explain why a token is rejected.",
        discussion: """
            EXAMPLES
              sluice token --organization 0192f0c1-2345-7abc-8def-0123456789ab \\
                           --user 0192f0c2-2345-7abc-8def-0123456789ab
              sluice token --operator
              pbpaste | sluice token explain -
            """,
        subcommands: [MakeTokenCommand.self, ExplainTokenCommand.self],
        defaultSubcommand: MakeTokenCommand.self
    )
}
