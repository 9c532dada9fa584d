import ArgumentParser
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
              SLUICE_JWT_KEYS_FILE=/etc/sluice/jwks.json sluice serve
              SLUICE_JWT_JWKS_URL=https://id.example/.well-known/jwks.json sluice serve
              sluice serve --config /etc/sluice.json

            SIGTERM and SIGINT end it within 15 seconds: what is in hand is finished
            first, unless Ctrl-C is pressed again. Without its database it starts all
            the same, answers 503, and recovers by itself; with a schema that is
            behind it does not start.

            SETTINGS
            Each is an environment variable, or a member of the configuration file:
            the same name in lower case without SLUICE_, {"max_mutations": 500}. The
            environment goes before the file, the file before the default. A secret
            can be read from a file that its twin …_FILE names (in a configuration
            file: …_file). An empty variable is not set.

            \(Settings.help)
            """
    )

    @OptionGroup var options: ConfigurationOptions

    func run() async throws {
        try FileLimit.require()
        let settings = try await options.load()
        try FileLimit.require(for: settings)
        let (verifier, signer) = try await ConfigurationOptions.explained { () async throws(ConfigurationError) in
            try await settings.keys()
        }
        let logger = Wiring.bootstrapLogging(settings)
        let registry = Wiring.bootstrapMetrics()
        Allocator.useFewArenas()
        StartReport.log(settings, to: logger)
        let arrival = try await requireSchema(settings, logger: logger)
        try requireAddress(settings.publicAddress, .publicAddress, logger: logger)
        try requireAddress(settings.operationsAddress, .operationsAddress, logger: logger)
        do {
            try await Wiring.run(
                settings,
                verifier: verifier,
                signer: signer,
                registry: registry,
                logger: logger,
                database: arrival
            ) {
                logger.info("Listening", metadata: ["public": "\($0)", "operations": "\($1)"])
            }
        } catch {
            throw EndReport.exitCode(for: error, logger: logger)
        }
    }

    /// Fails with the setting's name: a listener that cannot bind reports an error too, but not which listener it is.
    private func requireAddress(_ address: ListenAddress, _ setting: Setting, logger: Logger) throws {
        let reason: String
        switch PortProbe.look(at: address) {
        case .free: return
        case .taken: reason = "\(PortOwner.words(of: address.port) ?? "another program") listens there"
        case .unusable(let refusal): reason = refusal
        }
        logger.critical(
            "Address cannot be listened on",
            metadata: [
                LogKeys.address: "\(address)", LogKeys.setting: "\(setting.variable)", LogKeys.reason: "\(reason)",
            ]
        )
        throw ExitCode.failure
    }

    /// Checks the schema. If the database is unavailable, returns the watcher that checks it once it is available.
    private func requireSchema(_ settings: Settings, logger: Logger) async throws -> DatabaseWatcher? {
        switch await SchemaCheck.look(at: settings.databaseURL) {
        case .ready(let pooling):
            PoolerAdvice.note(pooling, to: logger)
            return nil
        case .shared:
            logger.critical(
                "Database is behind a pooler that shares sessions; \(PoolerAdvice.remedy)",
                metadata: [LogKeys.reason: "\(PoolerAdvice.refusal): \(PoolerAdvice.reason)"]
            )
            throw Terminal.badConfiguration
        case .unreachable(let trouble):
            logger.warning(
                "Database cannot be reached; starting without it",
                metadata: [LogKeys.error: "\(trouble.words)\(settings.databaseHint)"]
            )
            return DatabaseWatcher(databaseURL: settings.databaseURL, logger: logger)
        case .empty:
            logger.critical("Database is empty; run: sluice migrate")
            throw ExitCode.failure
        case .behind(let pending):
            let names = pending.joined(separator: ", ")
            logger.critical(
                "Database schema is behind; run: sluice migrate",
                metadata: [LogKeys.reason: "\(names)"]
            )
            throw ExitCode.failure
        case .unfit(let reason):
            logger.critical("Database cannot be used", metadata: [LogKeys.error: "\(reason)\(settings.databaseHint)"])
            throw ExitCode.failure
        }
    }
}
