import ArgumentParser
import Foundation
import SyncModel
import Tokens

/// Makes a token to try the API with.
struct TokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: "Print a token, signed with the JWT secret.",
        discussion: """
            EXAMPLES
              sluice token --organization 0192f0c1-2345-7abc-8def-0123456789ab \\
                           --user 0192f0c2-2345-7abc-8def-0123456789ab
              TOKEN=$(sluice token --organization ID --user ID --ttl 600)

            For tests and for looking around; an app's tokens come from its identity provider.
            """
    )

    @Option(help: "The organization's UUID.", transform: uuidArgument)
    var organization: UUID

    @Option(help: "The user's UUID.", transform: uuidArgument)
    var user: UUID

    @Option(help: ArgumentHelp("How long it lives, from 1 to 31536000.", valueName: "seconds"))
    var ttl: Int64 = 3_600

    @OptionGroup var options: ConfigurationOptions

    func validate() throws {
        guard (1...31_536_000).contains(ttl) else { throw ValidationError("--ttl must be from 1 to 31536000.") }
    }

    func run() async throws {
        let settings = try await options.load()
        guard settings.jwtSecret != nil else {
            let message = "\(Setting.jwtSecret.variable) (or …_FILE) is not set; tokens are signed with it."
            throw Terminal.failure(message, Terminal.badConfiguration)
        }
        let configuration = try await ConfigurationOptions.explained { () async throws(ConfigurationError) in
            try settings.tokenConfiguration()
        }
        let issuer = try await TokenIssuer(configuration: configuration)
        let now = SystemClock.now().seconds
        Terminal.say(try await issuer.issue(organization: organization, user: user, ttlSeconds: ttl, now: now))
    }
}
