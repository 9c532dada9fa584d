import ArgumentParser
import CommandSupport
import Foundation
import SyncHTTP
import SyncModel
import SyncStore
import SyncUpstream
import Tokens

struct ExplainTokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Show the user of a token, or why it is rejected and which setting to change.",
        discussion: """
            EXAMPLES
              pbpaste | sluice token explain -
              sluice token explain - --json < token.txt
              sluice token explain - --organization acme < token.txt

            Uses the gateway's settings, the issuer's keys and the database, and changes
            nothing: an unknown user is not registered. Read the token from standard input to
            keep it out of the shell's history. The signature is never shown, and all values
            are escaped. Of claims that the settings do not use, only the names are shown.

            Exits with 0 if a request with the token would be served, with 1 if it would be
            rejected, and with 69 if the database cannot be reached.
            """
    )

    @Argument(help: "The token, or - for standard input.")
    var token: String

    @Option(help: ArgumentHelp("Organization to choose, as in X-Sluice-Organization.", valueName: "name"))
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
                diagnoses += await standing(of: claims, verifier, settings, explanation)
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

    private func standing(
        of claims: TokenClaims,
        _ verifier: TokenVerifier,
        _ settings: Settings,
        _ explanation: TokenExplanation
    ) async -> [Diagnosis] {
        let store = settings.commandStore()
        let inquiry = AuthorizationDryRun(store: store, verifier: verifier, now: SystemClock.now, logger: .ofCommands())
        let (organization, verdict) = await inquiry.verdict(on: claims, chosen: self.organization)
        await store.close()
        return explanation.standing(of: claims, in: organization, chosen: self.organization, verdict)
    }

    /// The token, without what people copy along with it.
    private func bareToken() throws -> String {
        var text = token
        if token == "-" {
            let data = try FileHandle.standardInput.read(upToCount: Self.maximumBytes) ?? Data()
            text = String(decoding: data, as: UTF8.self)
        }
        text = text.trimmingCharacters(in: .whitespacesAndNewlines)
        for prefix in ["authorization:", "bearer "] where text.lowercased().hasPrefix(prefix) {
            text = String(text.dropFirst(prefix.count)).trimmingCharacters(in: .whitespaces)
        }
        guard !text.isEmpty, text.lowercased() != "bearer" else {
            throw Terminal.failure("the token is empty; check that the variable is set", ExitCode.validationFailure)
        }
        return text
    }
}
