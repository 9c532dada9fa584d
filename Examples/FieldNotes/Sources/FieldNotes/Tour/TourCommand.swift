import ArgumentParser
import Foundation

struct TourCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tour",
        abstract: "Simulate four phones of one organization, online and offline.",
        discussion: """
            EXAMPLES
              fieldnotes tour --token-file kari.token --token-file ola.token \\
                --token-file per.token --token-file lise.token
              make phones

            Contacts and visits must be types that the gateway stores, and expenses a
            forwarded type, all without entities. Kari and Ola hold a channel of all
            of them; Per and Lise hold none. make phones arranges that.
            """
    )

    @OptionGroup var gateway: GatewayOption

    @Option(
        help: ArgumentHelp("File with Kari's token; repeat the option for Ola's, Per's and Lise's.", valueName: "file")
    )
    var tokenFile: [String]

    func validate() throws {
        guard tokenFile.count == 4 else {
            throw ValidationError("--token-file is needed four times: for Kari, Ola, Per and Lise.")
        }
    }

    func run() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "fieldnotes-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        func phone(_ name: String, _ token: String) throws -> Phone {
            let file = folder.appending(path: "\(name).sqlite").path
            return try Phone(name: name, file: file, gateway: try gateway.url, token: .file(token))
        }
        do {
            let names = ["Kari", "Ola", "Per", "Lise"]
            let phones = try zip(names, tokenFile).map { name, file in try phone(name, file) }
            try await Tour(kari: phones[0], ola: phones[1], per: phones[2], lise: phones[3]).run()
        } catch let failure as TourFailure {
            Terminal.write("\nThe tour has failed. \(failure.description)\n")
            throw ExitCode.failure
        }
    }
}
