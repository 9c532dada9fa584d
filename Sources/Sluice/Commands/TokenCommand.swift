import ArgumentParser
import CommandSupport
import FoundationEssentials
import SyncHTTP
import SyncModel
import SyncStore
import SyncUpstream
import Tokens

struct TokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: "Create a token, or explain why a token is rejected.",
        discussion: """
            EXAMPLES
              sluice token --organization 0192f0c1-2345-7abc-8def-0123456789ab \\
                --user 0192f0c2-2345-7abc-8def-0123456789ab
              sluice token --operator
              sluice token explain - < token.txt

            Without a subcommand, `sluice token` runs `sluice token make`. These are the tokens of users and \
            operators. For tokens of programs, see `sluice tokens`.
            """,
        subcommands: [MakeTokenCommand.self, ExplainTokenCommand.self],
        defaultSubcommand: MakeTokenCommand.self
    )
}

// MARK: - MakeTokenCommand

struct MakeTokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "make",
        abstract: "Print a user's token, signed with the JWT secret, or a new operator token.",
        usage: """
            sluice token make --organization <organization> --user <user> [<options>]
            sluice token make --operator [--name <name>] [--scope <scope>]
            """,
        discussion: """
            EXAMPLES
              sluice token make --organization 0192f0c1-2345-7abc-8def-0123456789ab \\
                --user 0192f0c2-2345-7abc-8def-0123456789ab --ttl 600
              sluice token make --operator --name anna --scope settle

            Use users' tokens for tests and trials; they require SLUICE_JWT_SECRET. The command does not check whether \
            user and organization exist. The tokens of an app are issued by its identity provider.

            --operator prints two lines: a new random token of 256 bits, which is not stored, and the setting \
            SLUICE_OPERATOR_TOKEN with its hash. To replace a token, configure both hashes for a while, separated by a \
            space. The name identifies the operator in the audit log. The scope limits what the token permits: reading \
            (read), also settling failed mutations (settle), or everything (admin).
            """
                + HelpText.exitCodes(
                    [
                        0: "The token is printed.",
                        1: "The output could not be written completely.",
                        78: "The configuration is invalid, or SLUICE_JWT_SECRET is not set.",
                    ],
                    usesDatabase: false
                )
    )

    @Option(help: .organization, transform: uuidArgument)
    var organization: UUID?

    @Option(help: .user, transform: uuidArgument)
    var user: UUID?

    @Option(help: ArgumentHelp("Lifetime of a user's token, 1 to 31536000. Default: 3600.", valueName: "seconds"))
    var ttl: Int64?

    @Flag(name: .customLong("operator"), help: "Create an operator token for /admin instead.")
    var isForOperators = false

    @Option(
        help: ArgumentHelp(
            "With --operator: the operator's name, [a-z0-9-]{1,32}. Default: operator.",
            valueName: "name"
        )
    )
    var name: String?

    @Option(
        help: ArgumentHelp("With --operator: read, settle or admin. Default: admin.", valueName: "scope"),
        transform: scopeArgument
    )
    var scope: OperatorScope?

    @OptionGroup var options: ConfigurationOptions

    func validate() throws {
        if let name, !OperatorToken.isValidName(name) {
            throw ValidationError("--name must be 1 to 32 characters of a-z, 0-9 and -.")
        }
        if !isForOperators, name != nil || scope != nil {
            throw ValidationError("--name and --scope require --operator.")
        }
        if isForOperators {
            guard organization == nil, user == nil, ttl == nil else {
                throw ValidationError("--operator excludes --organization, --user and --ttl: it does not expire.")
            }
        } else if organization == nil || user == nil {
            throw ValidationError("Use --organization and --user, or --operator.")
        }
        if let ttl, !(1...31_536_000).contains(ttl) { throw ValidationError("--ttl must be from 1 to 31536000.") }
    }

    func run() async throws {
        guard let organization, let user else { return printOperatorToken() }
        let settings = try await options.load()
        guard settings.jwtSecret != nil else {
            let message = "\(Setting.jwtSecret.variable) (or …_FILE) is not set; tokens are signed with it."
            for name in settings.unknownNames { Terminal.printError(name) }
            throw Terminal.failure(message, Terminal.badConfiguration)
        }
        let configuration = try await ConfigurationOptions.explained { () async throws(ConfigurationError) in
            try settings.tokenConfiguration()
        }
        let issuer = try await TokenIssuer(configuration: configuration)
        let now = SystemClock.now().seconds
        let seconds = ttl ?? Self.defaultTTL
        Terminal.output(try await issuer.issue(organization: organization, user: user, ttlSeconds: seconds, now: now))
    }

    private static let defaultTTL: Int64 = 3_600

    private func printOperatorToken() {
        // the system's generator is cryptographically secure
        var generator = SystemRandomNumberGenerator()
        let token = (0..<32).map { _ in
            let byte = UInt8.random(in: 0...255, using: &generator)
            return (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }
        .joined()
        Terminal.output("token: \(token)")
        let owner = name.map { $0 + "@" } ?? ""
        let purpose = scope.map { $0.rawValue + ":" } ?? ""
        Terminal.output("\(Setting.operatorToken.variable)=\(owner)\(purpose)\(OperatorTokens.hash(of: token))")
    }
}

private func scopeArgument(_ text: String) throws -> OperatorScope {
    guard let scope = OperatorScope(rawValue: text) else {
        throw ValidationError("--scope must be read, settle or admin.")
    }
    return scope
}

// MARK: - ExplainTokenCommand

struct ExplainTokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Show the user of a token, or why it is rejected and which setting to change.",
        discussion: """
            EXAMPLES
              sluice token explain - < token.txt
              sluice token explain - --json < token.txt
              sluice token explain - --organization acme < token.txt

            For users' tokens. Uses the gateway's settings, the issuer's keys and the database, and changes nothing: \
            an unknown user is not registered. Read the token from standard input to keep it out of the shell's \
            history. Prints one line per check, with the setting to change. The signature is never shown, and all \
            values are escaped. Of claims that the settings do not use, only the names are shown.
            """
                + HelpText.exitCodes([
                    0: "A request with the token would be served.",
                    1: "A request with the token would be rejected.",
                ])
    )

    @Argument(help: "The token, or - for standard input.")
    var token: String

    @Option(
        help: ArgumentHelp(
            "If the token names several organizations: the one to use, as in the header X-Sluice-Organization.",
            valueName: "organization"
        )
    )
    var organization: String?

    @Flag(help: "Print JSON.")
    var json = false

    @OptionGroup var options: ConfigurationOptions

    private static let maximumBytes = 65_536

    func run() async throws {
        let settings = try await options.load()
        let (configuration, verifier) = try await ConfigurationOptions.explained {
            () async throws(ConfigurationError) in
            (try settings.tokenConfiguration(), try await settings.tokenVerifier())
        }
        let text = try bareToken()
        let reader = HTTPReader(version: Version.current, logger: .ofCommands())
        let examination = await verifier.examine(text[...], now: SystemClock.now()) { await reader.keySet($0, $1) }
        await reader.shutdown()
        let explanation = TokenExplanation(examination, configuration, now: SystemClock.now().seconds)
        var diagnoses = explanation.diagnoses
        var isDatabaseAway = false
        if case .success(let claims) = examination.verdict {
            let finding = await SchemaCheck.check(at: settings.databaseURL)
            if case .ready = finding {
                diagnoses += await identityDiagnoses(of: claims, verifier, settings, explanation)
            } else {
                isDatabaseAway = true
                let advice = "Without it, user and organization cannot be looked up."
                diagnoses.append(.failed("database", finding.userMessage + settings.databaseHint, advice))
            }
        }
        let verdict = explanation.verdict(after: diagnoses)
        diagnoses += explanation.cautions + [verdict]
        Terminal.output(json ? Diagnosis.json(diagnoses) : diagnoses.map(\.text).joined(separator: "\n"))
        if isDatabaseAway { throw Terminal.unavailable }
        if verdict.status == .failed { throw ExitCode.failure }
    }

    private func identityDiagnoses(
        of claims: TokenClaims,
        _ verifier: TokenVerifier,
        _ settings: Settings,
        _ explanation: TokenExplanation
    ) async -> [Diagnosis] {
        let store = settings.commandStore()
        let inquiry = AuthorizationDryRun(store: store, verifier: verifier, now: SystemClock.now, logger: .ofCommands())
        let (organization, verdict) = await inquiry.verdict(on: claims, chosen: self.organization)
        await store.close()
        return explanation.identityDiagnoses(of: claims, in: organization, chosen: self.organization, verdict)
    }

    /// The token, without the characters that people copy together with it.
    private func bareToken() throws -> String {
        var text = token
        if token == "-" {
            text = String(decoding: try InputFile.standardInput.bytes(upTo: Self.maximumBytes), as: UTF8.self)
        }
        text = text.trimmed
        for prefix in ["authorization:", "bearer "] where text.lowercased().hasPrefix(prefix) {
            text = text.dropFirst(prefix.count).trimmed
        }
        guard !text.isEmpty, text.lowercased() != "bearer" else {
            throw Terminal.failure("the token is empty; check that the variable is set", ExitCode.validationFailure)
        }
        return text
    }
}
