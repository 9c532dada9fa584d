import ArgumentParser
import CommandSupport
import FoundationEssentials
import Postgres
import SyncModel
import SyncStore

struct DevCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dev",
        abstract: "Start a gateway with a private database and a demo organization.",
        usage: "sluice dev [<options>]",
        discussion: """
            EXAMPLES
              sluice dev
              sluice dev --demo-upstream
              sluice dev --port 9080 --operations-port 9081 --directory /tmp/trial

            Use it to try Sluice, or to develop an app. It creates a private PostgreSQL cluster in .sluice (on a Unix \
            socket, so that it does not conflict with other servers), migrates it, creates an organization "Demo" \
            with a user, starts the gateway, and prints a token and commands to paste. Requires only PostgreSQL's \
            server programs. If started as root, it runs PostgreSQL as the user postgres or nobody.

            --demo-upstream adds an organization "Demo upstream", whose mutations are replayed to a small REST API \
            (the program sluice-demo-upstream, which packages do not contain: without it, the command fails and prints \
            how to build it). Printed commands demonstrate a replay, a retry, a conflict and a colleague's edit. Each \
            request to the API is shown on one line. A second user has a failure and a conflict from the start. Settle \
            them in the console, whose address and token are printed. This organization and the API's data are created \
            again at each start.

            Settings take effect as with serve. These have no effect: SLUICE_CONFIG_FILE, the database URL, the \
            addresses of both listeners, the operator token, and the issuers, keys and claims of tokens.

            Press Ctrl-C to stop the gateway and the database. The next start uses the same data, except that \
            "Demo upstream" is created again. Delete the folder to start over.
            """
                + HelpText.exitCodes(
                    [
                        0: "Stopped by a signal.",
                        1: "Failed; for example, a port is in use, or PostgreSQL is not installed.",
                        78: "The configuration is invalid.",
                    ],
                    usesDatabase: false
                )
    )

    @Option(help: ArgumentHelp("Folder of secrets and data.", valueName: "folder"), completion: .directory)
    var directory = ".sluice"

    @Option(help: "Port of the API on 127.0.0.1; 0 selects a free port.")
    var port = 8_080

    @Option(
        help: ArgumentHelp("Port of health, metrics and /admin on 127.0.0.1; 0 selects a free port.", valueName: "port")
    )
    var operationsPort = 8_081

    @Flag(help: "Also run a small REST API to which mutations are replayed.")
    var demoUpstream = false

    @Option(help: ArgumentHelp("Port of that REST API on 127.0.0.1; 0 selects a free port.", valueName: "port"))
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
                throw ValidationError("--demo-upstream-port requires --demo-upstream.")
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
        guard demoUpstream else { return try await develop(environment, with: nil) }
        try await DemoUpstreamProcess.whileRunning(port: demoUpstreamPort) { upstream in
            try await develop(environment, with: upstream)
        }
    }

    private func develop(_ environment: [String: String], with upstream: DemoUpstreamProcess?) async throws {
        let directory = try DevelopmentDirectory(directory)
        Terminal.output("Sluice \(Version.current), in \(directory.path)")
        for variable in DevelopmentSettings.ignored(in: environment) {
            Terminal.output("  \(variable) has no effect here")
        }
        let cluster = try await DevelopmentCluster.locate(in: directory, environment: environment)
        let layout = cluster.layout
        if !layout.base.hasPrefix(directory.path), let user = layout.user {
            Terminal.output("  the user \(user.name) cannot access this folder; data is stored in \(layout.base)")
        }
        let settings = try await DevelopmentSettings.load(
            environment: environment,
            databaseURI: cluster.uri,
            directory: directory,
            ports: (port, operationsPort)
        )
        try FileLimit.require(for: settings)
        if !cluster.isInitialized {
            try await ProgressLine.during("creating a database cluster", cluster.initialize)
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
            switch PortProbe.check(at: address) {
            case .free: continue
            case .taken:
                let owner = PortOwner.userMessage(of: port) ?? "another program"
                throw DevelopmentError(
                    "\(owner) listens at \(address). Stop it, or choose another port with \(option) "
                        + "(make run PORT=9080 OPERATIONS_PORT=9081)."
                )
            case .unusable(let reason): throw DevelopmentError("\(address) cannot be used: \(reason).")
            }
        }
    }

    private func prepareDatabase(_ settings: Settings, upstream: DemoUpstreamProcess?) async throws -> ServiceToken? {
        try await SchemaCheck.withConnection(to: settings.databaseURL) { connection in
            let migrator = Schema.migrator()
            let pending = try await migrator.pending(on: connection)
            if pending.isEmpty { return }
            try await ProgressLine.during("migrating (\(SchemaCheck.list(pending)))") {
                _ = try await migrator.migrate(on: connection)
            }
        }
        return try await DemoTenant.prepare(settings, upstream: upstream.map { "http://\($0.address)" })
    }

    private func serve(
        _ settings: Settings,
        directory: DevelopmentDirectory,
        watch: DatabaseWatch,
        upstream: DemoUpstreamProcess?,
        serviceToken: ServiceToken?
    ) async throws {
        let verifier = try await settings.tokenVerifier()
        let token = try await DemoTenant.builtIn.token(settings)
        let upstreamToken = try await DemoTenant.forwarded.token(settings)
        let troubledToken = try await DemoFault.tenant.token(settings)
        let operatorToken = settings[.operatorToken] ?? ""
        let signer = try await settings.requestSigner()
        let logger = GatewayAssembly.bootstrapLogging(settings)
        let registry = GatewayAssembly.bootstrapMetrics()
        let traces = GatewayAssembly.bootstrapTraces(settings, registry, logger)
        StartReport.log(settings, to: logger)
        do {
            try await GatewayAssembly.run(
                settings,
                verifier: verifier,
                signer: signer,
                registry: registry,
                logger: logger,
                companions: [watch] + (upstream.map { [$0] } ?? []) + (traces.map { [$0] } ?? []),
                demo: LaneKey(organization: DemoTenant.builtIn.organization, user: DemoTenant.builtIn.user)
            ) { address, operations in
                let text = DevelopmentScreen.text(
                    public: address,
                    operations: operations,
                    token: token,
                    operatorToken: operatorToken,
                    directory: directory,
                    databaseURI: settings.databaseURL
                )
                Terminal.output(text)
                if let upstream {
                    let failure = DemoFault(gateway: address, upstream: upstream.address, token: troubledToken)
                    Task {
                        if let serviceToken { await upstream.report(to: address, token: serviceToken) }
                        await failure.make()
                    }
                    Terminal.output(
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
