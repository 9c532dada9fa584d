import ArgumentParser
import Foundation
import JSONText
import SyncModel
import SyncStore

/// Makes a tenant.
struct CreateOrganizationCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create",
        abstract: "Create an organization and print its id.",
        discussion: """
            EXAMPLES
              sluice organizations create "Acme Ltd"
              sluice organizations create "Acme Ltd" --json \\
                --id 0192f0c1-2345-7abc-8def-0123456789ab
            """
    )

    @Argument(help: "Its name, 1 to 200 characters.")
    var name: String

    @Option(help: "Its UUID, if it has one already; otherwise a new one.", transform: uuidArgument)
    var id: UUID?

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let id = id ?? UUIDv7Generator().make(at: SystemClock.now())
        let answer = try await options.run { administration throws(Problem) -> [UInt8]? in
            guard try await administration.organization(id) == nil else { return nil }
            return try await administration.put(id, body: AdministrationOptions.body { $0.member("name", name) }).json
        }
        guard let answer else { throw Terminal.failure("there is an organization \(id.lowercased) already") }
        Terminal.say(options.json ? String(decoding: answer, as: UTF8.self) : id.lowercased)
    }
}
