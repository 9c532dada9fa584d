import ArgumentParser

struct PhoneCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "phone",
        abstract: "Simulate one phone. Type help for its commands.",
        discussion: """
            EXAMPLES
              fieldnotes --name Kari --database kari.sqlite --token-file kari.token
              FIELDNOTES_TOKEN=… fieldnotes --gateway https://sync.example.com
            """
    )

    @OptionGroup var gateway: GatewayOption

    @Option(help: ArgumentHelp("The phone's database; created if it does not exist.", valueName: "file"))
    var database = "fieldnotes.sqlite"

    @Option(help: ArgumentHelp("File with the user's token. Default: FIELDNOTES_TOKEN.", valueName: "file"))
    var tokenFile: String?

    @Option(help: "The phone's owner, for the prompt.")
    var name = "me"

    func run() async throws {
        let token = tokenFile.map(TokenSource.file) ?? .environment("FIELDNOTES_TOKEN")
        // an expired token is enough to work offline; without any token an option is missing
        _ = try token.read()
        try await Shell(phone: try Phone(name: name, file: database, gateway: gateway.url, token: token)).run()
    }
}
