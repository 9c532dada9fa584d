import ArgumentParser
import CommandSupport
import Foundation
import JSONText
import SyncHTTP
import SyncModel

struct ExportUserCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Print all stored data of a user, one JSON object per line.",
        discussion: """
            EXAMPLE
              sluice users export 0192f0c1-2345-7abc-8def-0123456789ab \\
                --organization 0192f0c1-0000-7abc-8def-0123456789ab > ada.ndjson

            Encrypted values are decrypted: protect the output accordingly. The last line has
            the kind "end"; if it is missing, the export was interrupted.
            """
    )

    @Argument(help: "The UUID of the user.", transform: uuidArgument)
    var user: UUID

    @Option(help: "The UUID of the user's organization.", transform: uuidArgument)
    var organization: UUID

    @OptionGroup var options: AdministrationOptions

    func run() async throws {
        let lane = LaneKey(organization: organization, user: user)
        try await options.withStore(
            CommandAct("exportUser", of: organization, user: user),
            orElse: .noUser(user.lowercased, in: organization)
        ) { store, _ throws(Problem) -> Void? in
            guard try await store.exports.isKnown(lane) else { return nil }
            do {
                try await store.exports.run(lane) {
                    Terminal.output(String(decoding: $0, as: UTF8.self), terminator: "")
                }
            } catch let problem as Problem {
                throw problem
            } catch {
                throw Problem(.internalError, "the export was interrupted: \(error)")
            }
            return ()
        }
    }
}
