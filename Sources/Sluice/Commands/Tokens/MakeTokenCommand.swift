import ArgumentParser
import Foundation
import SyncHTTP
import SyncModel
import Tokens

struct MakeTokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "make",
        abstract: "Print a token, signed with the JWT secret, or a new one for operators.",
        usage: "sluice token make [<options>]",
        discussion: """
            EXAMPLES
              sluice token make --organization 0192f0c1-2345-7abc-8def-0123456789ab \\
                                --user 0192f0c2-2345-7abc-8def-0123456789ab
              TOKEN=$(sluice token make --organization ID --user ID --ttl 600)

              sluice token make --operator
              sluice token make --operator --name anna --scope settle

            A user's token is for tests and for looking around; an app's tokens come from
            its identity provider.

            With --operator it prints a new random token of 256 bits, which is kept
            nowhere, and the line to put into the configuration, which holds its hash. To
            replace a token, put both hashes there for a while, with a space between. Its
            name is what the audit calls its operator; its scope says what it is good for:
            to read, to settle what is stuck as well, or everything (admin).
            """
    )

    @Option(help: ArgumentHelp("The organization's UUID.", valueName: "uuid"), transform: uuidArgument)
    var organization: UUID?

    @Option(help: ArgumentHelp("The user's UUID.", valueName: "uuid"), transform: uuidArgument)
    var user: UUID?

    @Option(help: ArgumentHelp("How long it lives, from 1 to 31536000; by default 3600.", valueName: "seconds"))
    var ttl: Int64?

    @Flag(name: .customLong("operator"), help: "Make a token of /admin instead.")
    var isForOperators = false

    @Option(help: ArgumentHelp("With --operator: whose it is, [a-z0-9-]{1,32}.", valueName: "name"))
    var name: String?

    @Option(
        help: ArgumentHelp("With --operator: read, settle or admin; by default admin.", valueName: "scope"),
        transform: scopeArgument
    )
    var scope: OperatorScope?

    @OptionGroup var options: ConfigurationOptions

    func validate() throws {
        if let name, !OperatorToken.isValidName(name) {
            throw ValidationError("--name must be 1 to 32 of a-z, 0-9 and -.")
        }
        if !isForOperators, name != nil || scope != nil {
            throw ValidationError("--name and --scope go with --operator.")
        }
        if isForOperators {
            guard organization == nil, user == nil, ttl == nil else {
                throw ValidationError("--operator goes without --organization, --user and --ttl: it does not expire.")
            }
        } else if organization == nil || user == nil {
            throw ValidationError("--organization and --user are needed, or --operator.")
        }
        if let ttl, !(1...31_536_000).contains(ttl) { throw ValidationError("--ttl must be from 1 to 31536000.") }
    }

    func run() async throws {
        guard let organization, let user else { return sayOperatorToken() }
        let settings = try await options.load()
        guard settings.jwtSecret != nil else {
            let message = "\(Setting.jwtSecret.variable) (or …_FILE) is not set; tokens are signed with it."
            for name in settings.unknownNames { Terminal.complain(name) }
            throw Terminal.failure(message, Terminal.badConfiguration)
        }
        let configuration = try await ConfigurationOptions.explained { () async throws(ConfigurationError) in
            try settings.tokenConfiguration()
        }
        let issuer = try await TokenIssuer(configuration: configuration)
        let now = SystemClock.now().seconds
        let seconds = ttl ?? Self.usualTTL
        Terminal.say(try await issuer.issue(organization: organization, user: user, ttlSeconds: seconds, now: now))
    }

    private static let usualTTL: Int64 = 3_600

    private func sayOperatorToken() {
        // the system's generator is a cryptographic one
        var generator = SystemRandomNumberGenerator()
        let token = (0..<32).map { _ in
            let byte = UInt8.random(in: 0...255, using: &generator)
            return (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }
        .joined()
        Terminal.say("token: \(token)")
        let owner = name.map { $0 + "@" } ?? ""
        let purpose = scope.map { $0.rawValue + ":" } ?? ""
        Terminal.say("\(Setting.operatorToken.variable)=\(owner)\(purpose)\(OperatorTokens.hash(of: token))")
    }
}

private func scopeArgument(_ text: String) throws -> OperatorScope {
    guard let scope = OperatorScope(rawValue: text) else {
        throw ValidationError("--scope must be read, settle or admin.")
    }
    return scope
}
