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
              sluice users erase 0192f0c2-2345-7abc-8def-0123456789ab \\
                --organization 0192f0c1-2345-7abc-8def-0123456789ab
              sluice users erase 0192f0c2-2345-7abc-8def-0123456789ab \\
                --organization 0192f0c1-2345-7abc-8def-0123456789ab --yes

            For a person's request to delete their data. To keep a copy, run `sluice users export` first. Without \
            --yes, the command asks for the user's UUID as confirmation on a terminal; elsewhere, and with --json, it \
            deletes nothing and exits with 1.

            Documents that the user owns are deleted, or stay without an owner (`on_erase` of their entity type, \
            docs/api.md). Documents of others stay, without the user's id. The same account can never be used in this \
            organization again.

            From the start of the erasure, the user's requests are rejected, and devices are instructed to delete \
            their data. The command waits for requests in flight for at most two minutes. Gateways continue an \
            interrupted erasure, and notify the upstream if its setting `erase_endpoint` is set.
            """
                + HelpText.exitCodes([
                    0: "The user is erased.",
                    1: HelpText.failure("The user does not exist", "the deletion was not confirmed"),
                    75: "Requests of the user are still in flight. Gateways complete the erasure; you need not run the "
                        + "command again.",
                ])
    )

    @Argument(help: .user, transform: uuidArgument)
    var user: UUID

    @Option(help: .organization, transform: uuidArgument)
    var organization: UUID

    @Flag(help: "Delete without confirmation.")
    var yes = false

    @OptionGroup var options: AdministrationOptions

    private static let timeout: Duration = .seconds(120)

    func run() async throws {
        if !yes {
            let consequence = "this permanently deletes all data of user \(user.lowercased) (see sluice users export)"
            try options.requireConfirmation(consequence, of: user)
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
                "requests of the user are still in flight; gateways complete the erasure",
                Terminal.tryAgain
            )
        }
        let result =
            erasure.state == .done
            ? "\(user.lowercased) is erased" : "\(user.lowercased) is erased here; gateways notify the upstream"
        options.output(UserErasureAnswer(user: user, erasure: erasure).json(), result)
    }
}
