import ArgumentParser
import Foundation
import JSONText
import SyncHTTP
import SyncMaintenance
import SyncModel

struct JoinUsersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "join",
        abstract: "Make everything of a user part of another's, for good.",
        discussion: """
            EXAMPLE
              sluice users join 0192f0c1-2345-7abc-8def-0123456789ab \\
                --into 0192f0c1-2345-7abc-8def-ba9876543210 \\
                --organization 0192f0c1-0000-7abc-8def-0123456789ab

            For one person with two accounts. Neither is served while it is done, for
            8 seconds at least; what is being sent is waited for, two minutes at most:
            then it ends with 75, and goes on when it is run again at once. What the user
            pushed stands behind what the other did, in its order, and runs once.
            """
    )

    @Argument(help: "The UUID of the user that is to be no more.", transform: uuidArgument)
    var user: UUID

    @Option(help: "The UUID of the user that it becomes part of.", transform: uuidArgument)
    var into: UUID

    @Option(help: "The UUID of their organization.", transform: uuidArgument)
    var organization: UUID

    @OptionGroup var options: AdministrationOptions

    private static let patience: Duration = .seconds(120)

    func run() async throws {
        let join = try await options.withStore { store, _ throws(Problem) -> UserJoinRow? in
            try await store.joining.join(user, into: into, in: organization, patience: Self.patience)
        }
        guard let join else {
            throw Terminal.failure("organization \(organization.lowercased) has no user \(user.lowercased)")
        }
        guard join.state != .closing else {
            throw Terminal.failure(
                "something of one of them is still being sent: neither is served for two minutes; run it again to go on",
                Terminal.tryAgain
            )
        }
        options.say(join.json(), "\(user.lowercased) is part of \(into.lowercased)")
    }
}
