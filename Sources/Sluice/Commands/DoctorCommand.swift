import ArgumentParser
import CommandSupport
import FoundationEssentials
import SyncUpstream

struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Check configuration, database, schema, roles, keys, upstreams, listeners and clocks.",
        discussion: """
            EXAMPLES
              sluice doctor
              sluice doctor --json | jq '.checks[] | select(.status != "ok")'

            Run it after a change of the configuration, and if something does not work. Each line is ok, a warning (it \
            works, but should be reviewed) or failed (it does not work), with advice. Changes nothing. It requests key \
            sets and upstreams without credentials, for at most 5 seconds each. It also connects to the databases that \
            sources of kind postgres follow, with the sources' credentials.
            """
                + HelpText.exitCodes(
                    [
                        0: "No check failed; there may be warnings.",
                        1: "A check failed. An invalid configuration and an unreachable database are failed checks, "
                            + "too.",
                    ],
                    usesDatabase: false
                )
    )

    @Flag(help: "Print JSON.")
    var json = false

    @OptionGroup var options: ConfigurationOptions

    func run() async throws {
        let diagnoses = await examine()
        if json {
            Terminal.output(Diagnosis.json(diagnoses))
        } else {
            for diagnosis in diagnoses { Terminal.output(diagnosis.text) }
        }
        if diagnoses.contains(where: { $0.status == .failed }) { throw ExitCode.failure }
    }

    private func examine() async -> [Diagnosis] {
        do throws(ConfigurationError) {
            let environment = ProcessInfo.processInfo.environment
            let settings = try Settings.load(configFile: options.configFile, environment: environment)
            let reader = HTTPReader(version: Version.current, logger: .ofCommands())
            let diagnoses =
                await HostExamination(settings: settings, reader: reader).diagnoses()
                + DatabaseExamination(settings: settings, reader: reader).diagnoses()
            await reader.shutdown()
            return diagnoses
        } catch {
            return error.problems.map { .failed("configuration", $0, "Correct it; see `sluice serve --help`.") }
        }
    }
}
