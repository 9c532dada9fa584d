import ArgumentParser

struct PhoneCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "phone",
        abstract: "Be one phone: type help for its commands.",
        discussion: """
            EXAMPLES
              fieldnotes --name Kari --database kari.sqlite --token-file kari.token
              FIELDNOTES_TOKEN=… fieldnotes --gateway https://sync.example.com
            """
    )

    @OptionGroup var gateway: GatewayOption

    @Option(help: ArgumentHelp("The phone's database; made where there is none.", valueName: "file"))
    var database = "fieldnotes.sqlite"

    @Option(help: ArgumentHelp("Has the user's token; else FIELDNOTES_TOKEN does.", valueName: "file"))
    var tokenFile: String?

    @Option(help: "Whose phone it is, for the prompt.")
    var name = "me"

    func run() async throws {
        let token = tokenFile.map(TokenSource.file) ?? .environment("FIELDNOTES_TOKEN")
        // without a network one can work with yesterday's token, without any token one has mistyped something
        _ = try token.read()
        try await Shell(phone: try Phone(name: name, file: database, gateway: gateway.url, token: token)).run()
    }
}
