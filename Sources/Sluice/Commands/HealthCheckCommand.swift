import ArgumentParser
import CommandSupport

/// Reports the health of the gateway with the same settings by its exit code: for container images, which have no curl.
struct HealthCheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "healthcheck",
        abstract: "Check whether the running gateway is alive or ready.",
        discussion: """
            EXAMPLES
              sluice healthcheck            requests /livez: is the process running?
              sluice healthcheck --ready    requests /readyz: can it serve requests?

            Sends the request to SLUICE_OPERATIONS_ADDRESS. Exits with 0 if the response is
            200; otherwise prints the reason and exits with 1.
            """
    )

    @Flag(help: "Check whether it can serve requests, not only whether it runs.")
    var ready = false

    @Option(help: ArgumentHelp("Maximum time to wait for the response, 1 to 60.", valueName: "seconds"))
    var timeout = 5

    @OptionGroup var options: ConfigurationOptions

    func validate() throws {
        guard (1...60).contains(timeout) else { throw ValidationError("--timeout must be from 1 to 60.") }
    }

    func run() async throws {
        let settings = try await options.load()
        let path = ready ? "/readyz" : "/livez"
        let probe = HealthProbe(address: settings.operationsAddress, path: path, timeout: timeout)
        if let problem = probe.problem() { throw Terminal.failure(problem) }
        Terminal.output(ready ? "ready" : "alive")
    }
}
