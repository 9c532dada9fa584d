import ArgumentParser
import CommandSupport
import Logging
import Postgres
import SyncHTTP
import Telemetry

struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Run the gateway.",
        discussion: """
            EXAMPLES
              SLUICE_JWT_SECRET_FILE=/run/secrets/jwt sluice serve
              SLUICE_JWT_JWKS_URL=https://id.example/.well-known/jwks.json \\
                SLUICE_JWT_ISSUER=https://id.example SLUICE_JWT_AUDIENCE=sluice sluice serve
              sluice serve --config /etc/sluice.json

            Requires a database prepared by `sluice migrate`, and keys to verify tokens: SLUICE_JWT_SECRET, \
            SLUICE_JWT_KEYS_FILE, SLUICE_JWT_JWKS_URL or SLUICE_JWT_ISSUERS_FILE. `sluice doctor` checks both. Prints \
            log lines to standard output.

            On SIGTERM or SIGINT, the gateway completes the work in progress and stops within 15 seconds. A second \
            Ctrl-C stops it immediately. If the database cannot be reached, the gateway starts, responds with 503, and \
            recovers automatically. If the schema is outdated, it does not start; with a newer schema, it starts.

            SETTINGS
              Each setting is an environment variable, or a member of the configuration file (--config, or the \
            variable SLUICE_CONFIG_FILE): the same name in lower case, without SLUICE_. The environment takes \
            precedence over the file, and the file over the default. An empty variable counts as unset. A secret, \
            marked (or …_FILE), can also be read from a file whose path is in the variable with the suffix _FILE (in a \
            configuration file: _file). A complete configuration file:

              {"database_url": "postgresql://sluice@db/sluice",
               "jwt_secret_file": "/run/secrets/jwt", "otel_service_name": "sync"}

              Limits of connections, lanes, requests and memory apply to each gateway process. `sluice --help` defines \
            lane, mutation and upstream. Events are changes that were made outside of Sluice and reported to it.

            \(Settings.help)
            """
                + HelpText.exitCodes(
                    [
                        0: "Stopped by a signal.",
                        1: "Failed, such as by an outdated schema or an address in use; the log has the reason.",
                        78: "The configuration is invalid, a connection pooler shares sessions between clients "
                            + "(transaction mode), or the system allows too few open files: with the default settings, at "
                            + "least 164, and 6 for each core, are required.",
                    ],
                    usesDatabase: false
                )
    )

    @OptionGroup var options: ConfigurationOptions

    func run() async throws {
        try FileLimit.require()
        let settings = try await options.load()
        try FileLimit.require(for: settings)
        let (verifier, signer) = try await ConfigurationOptions.explained { () async throws(ConfigurationError) in
            try await settings.keys()
        }
        let logger = GatewayAssembly.bootstrapLogging(settings)
        let registry = GatewayAssembly.bootstrapMetrics()
        Allocator.useFewArenas()
        StartReport.log(settings, to: logger)
        let arrival = try await requireSchema(settings, logger: logger)
        try requireAddress(settings.publicAddress, .publicAddress, logger: logger)
        try requireAddress(settings.operationsAddress, .operationsAddress, logger: logger)
        let traces = GatewayAssembly.bootstrapTraces(settings, registry, logger)
        do {
            try await GatewayAssembly.run(
                settings,
                verifier: verifier,
                signer: signer,
                registry: registry,
                logger: logger,
                companions: [traces].compactMap { $0 },
                database: arrival
            ) {
                logger.info("Listening", metadata: ["public": "\($0)", "operations": "\($1)"])
            }
        } catch {
            throw EndReport.exitCode(for: error, logger: logger)
        }
    }

    /// Fails with the setting's name if an address cannot be used. Without this check, the error of a listener that
    /// cannot bind would not name the listener.
    private func requireAddress(_ address: ListenAddress, _ setting: Setting, logger: Logger) throws {
        let reason: String
        switch PortProbe.check(at: address) {
        case .free: return
        case .taken: reason = "\(PortOwner.userMessage(of: address.port) ?? "another program") listens there"
        case .unusable(let refusal): reason = refusal
        }
        logger.critical(
            "Cannot listen on address",
            metadata: [
                LogKeys.address: "\(address)", LogKeys.setting: "\(setting.variable)", LogKeys.reason: "\(reason)",
            ]
        )
        throw ExitCode.failure
    }

    /// Checks the schema. If the database is unavailable, returns the watcher that checks the schema when the database
    /// becomes available.
    private func requireSchema(_ settings: Settings, logger: Logger) async throws -> DatabaseWatcher? {
        switch await SchemaCheck.check(at: settings.databaseURL) {
        case .ready(let pooling):
            PoolerAdvice.record(pooling, to: logger)
            return nil
        case .shared:
            logger.critical(
                "Database is behind a pooler that shares sessions; \(PoolerAdvice.remedy)",
                metadata: [LogKeys.reason: "\(PoolerAdvice.refusal): \(PoolerAdvice.reason)"]
            )
            throw Terminal.badConfiguration
        case .unreachable(let failure):
            logger.warning(
                "Cannot reach the database; starting without it",
                metadata: [LogKeys.error: "\(failure.userMessage)\(settings.databaseHint)"]
            )
            return DatabaseWatcher(databaseURL: settings.databaseURL, logger: logger)
        case .empty:
            logger.critical("Database is empty; run: sluice migrate")
            throw ExitCode.failure
        case .behind(let pending):
            let names = pending.joined(separator: ", ")
            logger.critical(
                "Database schema is outdated; run: sluice migrate",
                metadata: [LogKeys.reason: "\(names)"]
            )
            throw ExitCode.failure
        case .unfit(let reason):
            logger.critical("Database cannot be used", metadata: [LogKeys.error: "\(reason)\(settings.databaseHint)"])
            throw ExitCode.failure
        }
    }
}
