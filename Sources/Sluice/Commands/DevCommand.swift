import ArgumentParser
import Foundation
import Postgres
import SyncModel
import SyncStore

struct DevCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dev",
        abstract: "Try it: the gateway with a private database, ready to be used.",
        usage: "sluice dev [<options>]",
        discussion: """
            EXAMPLES
              sluice dev
              sluice dev --demo-upstream
              sluice dev --port 9080 --operations-port 9081 --directory /tmp/trial

            Makes a PostgreSQL cluster of its own in .sluice (on a Unix socket, so it
            is in nobody's way), migrates it, makes an organization "Demo" with a user,
            starts the gateway, and prints a token and commands to paste. Needs
            PostgreSQL's server programs, and nothing else. Started as root, it runs
            PostgreSQL as the user postgres, or nobody.

            With --demo-upstream there is also an organization "Demo upstream", whose
            mutations are replayed against a small REST API in this process, with
            commands that show a replay, a retry, a conflict and a colleague's edit. What reaches the API is
            shown, a line a request. A second user of it has a failure and a conflict
            from the start, for the console, whose address and token are printed. Both
            begin afresh with each start.

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

    @Flag(help: "Also run a small REST API that mutations are replayed against.")
    var demoUpstream = false

    @Option(help: "The port of that REST API, on 127.0.0.1; 0 takes any.")
    var demoUpstreamPort = 0

    func validate() throws {
        let ports = [
            ("--port", port), ("--operations-port", operationsPort), ("--demo-upstream-port", demoUpstreamPort),
        ]
        for (name, port) in ports {
            guard (0...65_535).contains(port) else { throw ValidationError("\(name) must be from 0 to 65535.") }
        }
        if port == operationsPort, port != 0 { throw ValidationError("--port and --operations-port must differ.") }
        if demoUpstreamPort != 0 {
            guard demoUpstream else {
                throw ValidationError("--demo-upstream-port is of use with --demo-upstream only.")
            }
            guard ![port, operationsPort].contains(demoUpstreamPort) else {
                throw ValidationError("--demo-upstream-port must differ from the other ports.")
            }
        }
    }

    func run() async throws {
        do {
            try await develop(environment: ProcessInfo.processInfo.environment)
        } catch let error as DevelopmentError {
            throw Terminal.failure(error.description)
        }
    }

    private func develop(environment: [String: String]) async throws {
        try FileLimit.require()
        try requirePorts()
        let upstream: DemoUpstream? =
            if demoUpstream { try await .listen(port: demoUpstreamPort, report: { Terminal.say($0) }) } else { nil }
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
        try FileLimit.require(for: settings)
        if !cluster.isInitialized {
            try await ProgressLine.during("making a database cluster", cluster.initialize)
        }
        let start = ProgressLine("starting PostgreSQL")
        var ending: ProgressLine?
        try await cluster.whileRunning { watch in
            start.done()
            let serviceToken = try await prepareDatabase(settings, upstream: upstream)
            try await serve(
                settings,
                directory: directory,
                watch: watch,
                upstream: upstream,
                serviceToken: serviceToken
            )
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
                let owner = PortOwner.words(of: port) ?? "another program"
                throw DevelopmentError(
                    "\(owner) listens at \(address); end it, or choose another port with \(option) "
                        + "(make run PORT=9080 OPERATIONS_PORT=9081)."
                )
            case .unusable(let reason): throw DevelopmentError("\(address) cannot be used: \(reason).")
            }
        }
    }

    private func prepareDatabase(_ settings: Settings, upstream: DemoUpstream?) async throws -> ServiceToken? {
        try await SchemaCheck.withConnection(to: settings.databaseURL) { connection in
            let migrator = Schema.migrator()
            let pending = try await migrator.pending(on: connection)
            if pending.isEmpty { return }
            try await ProgressLine.during("migrating (\(SchemaCheck.list(pending)))") {
                _ = try await migrator.migrate(on: connection)
            }
        }
        return try await DemoTenant.prepare(settings, upstream: upstream)
    }

    private func serve(
        _ settings: Settings,
        directory: DevelopmentDirectory,
        watch: DatabaseWatch,
        upstream: DemoUpstream?,
        serviceToken: ServiceToken?
    ) async throws {
        let verifier = try await settings.tokenVerifier()
        let token = try await DemoTenant.builtIn.token(settings)
        let upstreamToken = try await DemoTenant.forwarded.token(settings)
        let troubledToken = try await DemoTrouble.tenant.token(settings)
        let operatorToken = settings[.operatorToken] ?? ""
        let signer = try await settings.requestSigner()
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
                companions: [watch] + (upstream.map { [$0] } ?? [])
            ) { address, operations in
                let text = DevelopmentScreen.text(
                    public: address,
                    operations: operations,
                    token: token,
                    operatorToken: operatorToken,
                    directory: directory,
                    databaseURI: settings.databaseURL
                )
                Terminal.say(text)
                if let upstream {
                    if let serviceToken { upstream.webhook.tell(address, token: serviceToken) }
                    let trouble = DemoTrouble(gateway: address, upstream: upstream.address, token: troubledToken)
                    Task { await trouble.make() }
                    Terminal.say(
                        DemoUpstreamScreen.text(public: address, upstream: upstream.address, token: upstreamToken)
                    )
                }
            }
        } catch {
            let code = EndReport.exitCode(for: error, logger: logger)
            if !code.isSuccess { throw code }
        }
    }
}
