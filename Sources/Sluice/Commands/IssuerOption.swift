import ArgumentParser
import Foundation
import SyncModel
import Tokens

/// Whose words a name is.
struct IssuerOption: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Whose word it is: the issuer's name as in `iss`, or its namespace. The one of the settings, if there is one.",
            valueName: "name"
        )
    )
    var issuer: String?

    func validate() throws {
        guard ExternalName.isValidIssuer(issuer ?? "") else {
            throw ValidationError("--issuer must have up to 1000 bytes without control characters.")
        }
    }

    /// The issuer that is meant; says where the settings have none of that name, which may be a slip of the pen.
    func resolve(_ options: ConfigurationOptions) async throws -> ExactText {
        let settings = try await options.load()
        let known = (try? settings.tokenConfiguration().issuers.map(\.rememberedAs)) ?? []
        if let issuer {
            if !known.isEmpty, !known.contains(where: { ExactText($0) == ExactText(issuer) }) {
                let names = known.map { $0.isEmpty ? "the one without a name" : ShownText.of($0) }
                let list = names.prefix(5).joined(separator: ", ")
                Terminal.complain(
                    "no issuer of the settings is remembered as \(ShownText.of(issuer)); they have \(list)"
                )
            }
            return ExactText(issuer)
        }
        if let only = known.first, known.count == 1 { return ExactText(only) }
        let reason = known.isEmpty ? "the settings name no issuer" : "the settings have \(known.count) issuers"
        throw Terminal.failure("say --issuer: \(reason)", ExitCode.validationFailure)
    }
}

/// Reads what an issuer calls somebody off the command line.
func externalName(_ text: String) throws -> ExactText {
    guard ExternalName.isValid(text) else {
        throw ValidationError("A name has 1 to \(ExternalName.maximumBytes) bytes without control characters.")
    }
    return ExactText(text)
}
