import ArgumentParser
import Foundation
import Postgres
import SyncStore

/// Everything at once, to try it.
struct DevCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dev",
        abstract: "Try it: the gateway with a private database, ready to be used.",
        discussion: """
            EXAMPLES
              sluice dev
              sluice dev --port 9080 --operations-port 9081 --directory /tmp/trial

            Makes a PostgreSQL cluster of its own in .sluice (on a Unix socket, so it
            is in nobody's way), migrates it, makes an organization "Demo" with a user,
            starts the gateway, and prints a token and commands to paste. Needs
            PostgreSQL's server programs, and nothing else. Started as root, it runs
            PostgreSQL as the user postgres, or nobody.

            SLUICE_ variables that limit or log have effect as with serve; database,
            addresses, keys and operator token are its own.

            Ctrl-C ends both; the next start finds the data. To begin afresh, remove
            the folder.
            """
    )

    @Option(help: ArgumentHelp("Where secrets and data are kept.", valueName: "folder"), completion: .directory)
    var directory = ".sluice"

    @Option(help: "The port of the API, on 127.0.0.1; 0 takes any.")
    var port = 8_080

    @Option(help: "The port of health, metrics and /admin, on 127.0.0.1; 0 takes any.")
    var operationsPort = 8_081

    func validate() throws {
        for (name, port) in [("--port", port), ("--operations-port", operationsPort)] {
            guard (0...65_535).contains(port) else { throw ValidationError("\(name) must be from 0 to 65535.") }
        }
        if port == operationsPort, port != 0 { throw ValidationError("--port and --operations-port must differ.") }
    }

    func run() async throws {
        do {
            try await develop(environment: ProcessInfo.processInfo.environment)
        } catch let error as DevelopmentError {
            throw Terminal.failure(error.description)
        }
    }

    private func develop(environment: [String: String]) async throws {
        try requirePorts()
        let directory = try DevelopmentDirectory(directory)
        Terminal.say("Sluice \(Version.current), in \(directory.path)")
        for variable in DevelopmentSettings.ignored(in: environment) {
            Terminal.say("  \(variable) has no effect here")
        }
        let cluster = try await DevelopmentCluster.settle(in: directory, environment: environment)
        let layout = cluster.layout
        if !layout.base.hasPrefix(directory.path), let user = layout.user {
            Terminal.say("  the user \(user.name) cannot get to this folder, so data are in \(layout.base)")
        }
        let settings = try await DevelopmentSettings.load(
            environment: environment,
            databaseURI: cluster.uri,
            directory: directory,
            ports: (port, operationsPort)
        )
        if !cluster.isInitialized {
            try await ProgressLine.during("making a database cluster", cluster.initialize)
        }
        let start = ProgressLine("starting PostgreSQL")
        var ending: ProgressLine?
        try await cluster.whileRunning { watch in
            start.done()
            try await prepareDatabase(settings)
            try await serve(settings, directory: directory, watch: watch)
            ending = ProgressLine("ending PostgreSQL")
        }
        ending?.done()
    }

    private func requirePorts() throws {
        for (port, option) in [(port, "--port"), (operationsPort, "--operations-port")] {
            let address = DevelopmentSettings.address(port)
            switch PortProbe.look(at: address) {
            case .free: continue
            case .taken:
                throw DevelopmentError("\(address) is in use by another program; choose another port with \(option).")
            case .unusable(let reason): throw DevelopmentError("\(address) cannot be used: \(reason).")
            }
        }
    }

    private func prepareDatabase(_ settings: Settings) async throws {
        try await SchemaCheck.withConnection(to: settings.databaseURL) { connection in
            let migrator = Schema.migrator()
            let pending = try await migrator.pending(on: connection)
            if pending.isEmpty { return }
            try await ProgressLine.during("migrating (\(pending.joined(separator: ", ")))") {
                _ = try await migrator.migrate(on: connection)
            }
        }
        try await Demo.prepare(settings)
    }

    private func serve(_ settings: Settings, directory: DevelopmentDirectory, watch: DatabaseWatch) async throws {
        let verifier = try await settings.tokenVerifier()
        let signer = try await settings.requestSigner()
        let token = try await Demo.token(settings)
        let logger = Wiring.bootstrapLogging(settings)
        let registry = Wiring.bootstrapMetrics()
        StartReport.log(settings, to: logger)
        do {
            try await Wiring.run(
                settings,
                verifier: verifier,
                signer: signer,
                registry: registry,
                logger: logger,
                companions: [watch]
            ) { address, operations in
                let text = DevelopmentScreen.text(
                    public: address,
                    operations: operations,
                    token: token,
                    directory: directory,
                    databaseURI: settings.databaseURL
                )
                Terminal.say(text)
            }
        } catch {
            let code = EndReport.exitCode(for: error, logger: logger)
            if !code.isSuccess { throw code }
        }
    }
}
