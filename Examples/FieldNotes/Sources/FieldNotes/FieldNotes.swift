import ArgumentParser

@main
struct FieldNotes: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fieldnotes",
        abstract: "Contacts, visits and expenses, with a network or without.",
        discussion: """
            EXAMPLES
              fieldnotes --name Kari --database kari.sqlite --token-file kari.token
              fieldnotes help tour
              fieldnotes help phone
            """,
        subcommands: [PhoneCommand.self, TourCommand.self],
        defaultSubcommand: PhoneCommand.self
    )
}
