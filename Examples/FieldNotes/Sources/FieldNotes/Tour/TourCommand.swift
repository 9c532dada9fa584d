import ArgumentParser
import Foundation

struct TourCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tour",
        abstract: "Simulate two phones of one organization, online and offline.",
        discussion: """
            EXAMPLES
              fieldnotes tour --token-file kari.token --token-file ola.token
              make phones

            Contacts and visits must be types that the gateway stores and both users
            see, and expenses a forwarded type, all without entities. make phones
            arranges that.
            """
    )

    @OptionGroup var gateway: GatewayOption

    @Option(help: ArgumentHelp("File with Kari's token; repeat the option for Ola's.", valueName: "file"))
    var tokenFile: [String]

    func validate() throws {
        guard tokenFile.count == 2 else { throw ValidationError("--token-file is needed twice: for Kari and for Ola.") }
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
            try await Tour(kari: try phone("Kari", tokenFile[0]), ola: try phone("Ola", tokenFile[1])).run()
        } catch let failure as TourFailure {
            Terminal.write("\nThe tour has failed. \(failure.description)\n")
            throw ExitCode.failure
        }
    }
}
