import ArgumentParser
import Foundation
import JSONText
import SyncHTTP
import SyncModel
import UsersFeature

struct EraseUserCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "erase",
        abstract: "Delete everything that is stored of a user, for good.",
        discussion: """
            EXAMPLES
              sluice users erase 0192f0c1-2345-7abc-8def-0123456789ab \\
                --organization 0192f0c1-0000-7abc-8def-0123456789ab
              sluice users erase 0192f0c1-2345-7abc-8def-0123456789ab \\
                --organization 0192f0c1-0000-7abc-8def-0123456789ab --yes

            Without --yes it asks on a terminal; elsewhere it deletes nothing, and ends
            with 1. The user is not served any more from the first moment on, and phones
            are told to delete what they have. What is being sent is waited for, two
            minutes at most: then it ends with 75. Gateways go on with what was cut off,
            and tell the upstream where it has an erase_endpoint.
            """
    )

    @Argument(help: "The UUID of the user.", transform: uuidArgument)
    var user: UUID

    @Option(help: "The UUID of the user's organization.", transform: uuidArgument)
    var organization: UUID

    @Flag(help: "Do it without asking.")
    var yes = false

    @OptionGroup var options: AdministrationOptions

    private static let patience: Duration = .seconds(120)

    func run() async throws {
        guard yes || Self.confirms(user) else {
            throw Terminal.failure(
                "this deletes everything of user \(user.lowercased) for good (sluice users export prints it); confirm "
                    + "with --yes"
            )
        }
        let isQuiet = options.json
        var last: UserErasureRow.State?
        let erasure = try await options.withStore(
            CommandAct("deleteUser", of: organization, user: user, ["erase": "true"]),
            orElse: .noUser(user.lowercased, in: organization)
        ) { store, _ throws(Problem) -> UserErasureRow? in
            try await store.erasing.erase(user, in: organization, patience: Self.patience) { erasure in
                guard !isQuiet, erasure.state == .closing, last != erasure.state else { return }
                last = erasure.state
                Terminal.complain("not served any more; waiting until every gateway has heard of it …")
            }
        }
        guard erasure.state != .closing else {
            throw Terminal.failure(
                "something of the user is still being sent: gateways go on with it, or run it again",
                Terminal.tryAgain
            )
        }
        let words =
            erasure.state == .done
            ? "\(user.lowercased) is erased" : "\(user.lowercased) is erased here; gateways tell the upstream"
        options.say(UserErasureAnswer(user: user, erasure: erasure).json(), words)
    }

    /// Asks for confirmation; returns false without a terminal.
    private static func confirms(_ user: UUID) -> Bool {
        guard isatty(STDIN_FILENO) == 1 else { return false }
        Terminal.say("Delete everything of user \(user.lowercased) for good? Type the user's id: ", terminator: "")
        return readLine().flatMap { UUID(parsing: $0) } == user
    }
}
