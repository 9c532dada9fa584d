package import ArgumentParser
import Foundation

/// The sources of a command's settings.
package struct ConfigurationOptions: ParsableArguments {
    @Option(
        name: .customLong("config"),
        help: ArgumentHelp(
            "JSON file of settings. The environment takes precedence. Also SLUICE_CONFIG_FILE.",
            valueName: "file"
        ),
        completion: .file(extensions: ["json"])
    )
    package var configFile: String?

    package init() {}

    /// The settings; prints their problems, and ends the command.
    package func load() async throws -> Settings {
        try await Self.explained { () async throws(ConfigurationError) in
            try Settings.load(configFile: configFile, environment: ProcessInfo.processInfo.environment)
        }
    }

    /// Prints the problems of a wrong configuration, and ends the command.
    package static func explained<Value>(_ body: () async throws(ConfigurationError) -> Value) async throws -> Value {
        do throws(ConfigurationError) {
            return try await body()
        } catch {
            for problem in error.problems { Terminal.printError(problem) }
            throw Terminal.badConfiguration
        }
    }
}
