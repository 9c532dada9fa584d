package import ArgumentParser
package import FoundationEssentials
import JSONText
package import SyncModel
import SyncStore
import Tokens

/// The sources of a command's settings.
package struct ConfigurationOptions: ParsableArguments {
    @Option(
        name: .customLong("config"),
        help: ArgumentHelp(
            "JSON file of settings. The environment takes precedence. Default: SLUICE_CONFIG_FILE.",
            valueName: "file"
        ),
        completion: .file(extensions: ["json"])
    )
    package var configFile: String?

    package init() {}

    /// Loads the settings. If the settings have problems, prints the problems and ends the command.
    package func load() async throws -> Settings {
        try await Self.explained { () async throws(ConfigurationError) in
            try Settings.load(configFile: configFile, environment: ProcessInfo.processInfo.environment)
        }
    }

    /// Runs `body`. If it throws problems of the configuration, prints the problems and ends the command.
    package static func explained<Value>(_ body: () async throws(ConfigurationError) -> Value) async throws -> Value {
        do throws(ConfigurationError) {
            return try await body()
        } catch {
            for problem in error.problems { Terminal.printError(problem) }
            throw Terminal.badConfiguration
        }
    }
}

extension ArgumentHelp {
    /// The help of an argument or option whose value is an organization.
    package static let organization = ArgumentHelp("The organization's UUID.", valueName: "organization")
    /// The help of an argument or option whose value is a user.
    package static let user = ArgumentHelp("The user's UUID.", valueName: "user")
}

/// Reads a UUID from the command line, in upper or lower case.
package func uuidArgument(_ text: String) throws -> UUID {
    guard let id = UUID(parsing: text) else {
        throw ValidationError("\"\(text)\" is not a UUID such as 0192f0c1-2345-7abc-8def-0123456789ab.")
    }
    return id
}

/// Reads a time from the command line: an RFC 3339 date-time, or a date (the beginning of this day in UTC).
package func momentArgument(_ text: String) throws -> Timestamp {
    guard let moment = Timestamp(rfc3339: text) ?? Timestamp(rfc3339: text + "T00:00:00Z") else {
        throw ValidationError("\"\(text)\" is neither a date-time such as 2026-11-20T07:00:00Z nor a date.")
    }
    return moment
}

/// The issuer of an external name.
package struct IssuerOption: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Issuer of the subject or name: its `iss`, or the namespace that SLUICE_JWT_ISSUERS_FILE gives it. "
                + "Default: the issuer of the settings; required if they have several issuers, or no keys of tokens.",
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

    /// Returns the selected issuer. Warns if the settings have no issuer of that name, because the name may be
    /// mistyped.
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

/// Parses the name that an issuer uses for a user.
package func externalName(_ text: String) throws -> ByteExactString {
    guard ExternalName.isValid(text) else {
        throw ValidationError("A name has 1 to \(ExternalName.maximumBytes) bytes without control characters.")
    }
    return ByteExactString(text)
}
