import ArgumentParser
import CommandSupport
import FoundationEssentials
import Glibc
import JSONText
import SyncHTTP
import SyncModel

struct EraseUserCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "erase",
        abstract: "Permanently delete all data of a user.",
        discussion: """
            EXAMPLES
              sluice users erase 0192f0c1-2345-7abc-8def-0123456789ab \\
                --organization 0192f0c1-0000-7abc-8def-0123456789ab
              sluice users erase 0192f0c1-2345-7abc-8def-0123456789ab \\
                --organization 0192f0c1-0000-7abc-8def-0123456789ab --yes

            Without --yes, it asks for confirmation on a terminal; elsewhere, it deletes
            nothing and exits with 1. From the start of the erasure, the user's requests are
            rejected, and devices are instructed to delete their data. The command waits for
            requests in flight for at most two minutes, then exits with 75. Gateways continue
            an interrupted erasure, and notify the upstream if it has an erase_endpoint.
            """
    )

    @Argument(help: "The UUID of the user.", transform: uuidArgument)
    var user: UUID

    @Option(help: "The UUID of the user's organization.", transform: uuidArgument)
    var organization: UUID

    @Flag(help: "Erase without confirmation.")
    var yes = false

    @OptionGroup var options: AdministrationOptions

    private static let timeout: Duration = .seconds(120)

    func run() async throws {
        guard yes || Self.confirms(user) else {
            throw Terminal.failure(
                "this permanently deletes all data of user \(user.lowercased) (see sluice users export); confirm "
                    + "with --yes"
            )
        }
        let isQuiet = options.json
        var last: UserErasureRow.State?
        let erasure = try await options.withStore(
            CommandAct("deleteUser", of: organization, user: user, ["erase": "true"]),
            orElse: .noUser(user.lowercased, in: organization)
        ) { store, _ throws(Problem) -> UserErasureRow? in
            try await store.erasing.erase(user, in: organization, timeout: Self.timeout) { erasure in
                guard !isQuiet, erasure.state == .closing, last != erasure.state else { return }
                last = erasure.state
                Terminal.printError("requests of the user are rejected; waiting until every gateway does so …")
            }
        }
        guard erasure.state != .closing else {
            throw Terminal.failure(
                "requests of the user are still in flight: gateways will continue, or run the command again",
                Terminal.tryAgain
            )
        }
        let userMessage =
            erasure.state == .done
            ? "\(user.lowercased) is erased" : "\(user.lowercased) is erased here; gateways notify the upstream"
        options.output(UserErasureAnswer(user: user, erasure: erasure).json(), userMessage)
    }

    /// Asks for confirmation; returns false without a terminal.
    private static func confirms(_ user: UUID) -> Bool {
        guard isatty(STDIN_FILENO) == 1 else { return false }
        Terminal.output("Permanently delete all data of user \(user.lowercased)? Type the user's id: ", terminator: "")
        return readLine().flatMap { UUID(parsing: $0) } == user
    }
}
