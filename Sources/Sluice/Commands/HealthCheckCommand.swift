import ArgumentParser

/// Reports the health of the gateway with the same settings by its exit code: for container images, which have no curl.
struct HealthCheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "healthcheck",
        abstract: "Ask the running gateway whether it lives, or is ready.",
        discussion: """
            EXAMPLES
              sluice healthcheck            asks /livez: does the process run?
              sluice healthcheck --ready    asks /readyz: can it serve requests?

            Asks at SLUICE_OPERATIONS_ADDRESS. Exits with 0 if the answer is 200, else
            with 1, and says why.
            """
    )

    @Flag(help: "Ask whether it can serve requests, and not only whether it runs.")
    var ready = false

    @Option(help: ArgumentHelp("How long to wait for the gateway, 1 to 60.", valueName: "seconds"))
    var timeout = 5

    @OptionGroup var options: ConfigurationOptions

    func validate() throws {
        guard (1...60).contains(timeout) else { throw ValidationError("--timeout must be from 1 to 60.") }
    }

    func run() async throws {
        let settings = try await options.load()
        let path = ready ? "/readyz" : "/livez"
        let probe = HealthProbe(address: settings.operationsAddress, path: path, patience: timeout)
        if let complaint = probe.complaint() { throw Terminal.failure(complaint) }
        Terminal.say(ready ? "ready" : "alive")
    }
}
