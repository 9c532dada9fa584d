import ArgumentParser
import Foundation

/// Looks at everything that the gateway depends on.
struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Check configuration, database, schema, keys, listeners and clocks.",
        discussion: """
            EXAMPLES
              sluice doctor
              sluice doctor --json | jq '.checks[] | select(.status != "ok")'

            Exits with 1 if something does not work. Changes nothing.
            """
    )

    @Flag(help: "Print JSON.")
    var json = false

    @OptionGroup var options: ConfigurationOptions

    func run() async throws {
        let diagnoses = await examine()
        if json {
            Terminal.say(Diagnosis.json(diagnoses))
        } else {
            for diagnosis in diagnoses { Terminal.say(diagnosis.text) }
        }
        if diagnoses.contains(where: { $0.status == .failed }) { throw ExitCode.failure }
    }

    private func examine() async -> [Diagnosis] {
        do throws(ConfigurationError) {
            let environment = ProcessInfo.processInfo.environment
            let settings = try Settings.load(configFile: options.configFile, environment: environment)
            return await HostExamination(settings: settings).diagnoses()
                + DatabaseExamination(settings: settings).diagnoses()
        } catch {
            return error.problems.map { .failed("configuration", $0, "Correct it; serve --help lists all settings.") }
        }
    }
}
