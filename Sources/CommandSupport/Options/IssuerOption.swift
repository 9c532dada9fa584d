package import ArgumentParser
import Foundation
package import SyncModel
import SyncStore
import Tokens

/// Whose words a name is.
package struct IssuerOption: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Issuer of the subject or name: its `iss` or its namespace. Default: the only issuer of the settings.",
            valueName: "name"
        )
    )
    package var issuer: String?

    package init() {}

    package func validate() throws {
        guard ExternalName.isValidIssuer(issuer ?? "") else {
            throw ValidationError("--issuer must have up to 1000 bytes without control characters.")
        }
    }

    /// Returns the selected issuer; warns if the settings have no issuer of that name, which may be a typing error.
    package func resolve(_ options: ConfigurationOptions) async throws -> ByteExactString {
        let settings = try await options.load()
        let known = (try? settings.tokenConfiguration().issuers.map(\.rememberedAs)) ?? []
        if let issuer {
            if !known.isEmpty, !known.contains(ByteExactString(issuer)) {
                let names = known.map { $0 == "" ? "the issuer without a name" : TerminalText.of($0) }
                let list = names.prefix(5).joined(separator: ", ")
                Terminal.printError(
                    "the settings contain no issuer \(TerminalText.of(issuer)), only \(list)"
                )
            }
            return ByteExactString(issuer)
        }
        if let only = known.first, Set(known).count == 1 { return only }
        let reason = known.isEmpty ? "the settings have no issuer" : "the settings have \(Set(known).count) issuers"
        throw Terminal.failure("--issuer is required: \(reason)", ExitCode.validationFailure)
    }
}

/// Parses the name that an issuer gives a user.
package func externalName(_ text: String) throws -> ByteExactString {
    guard ExternalName.isValid(text) else {
        throw ValidationError("A name has 1 to \(ExternalName.maximumBytes) bytes without control characters.")
    }
    return ByteExactString(text)
}
