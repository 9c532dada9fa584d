import ArgumentParser
import CommandSupport
import Postgres
import SyncStore

struct MigrateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate",
        abstract: "Create or upgrade the database schema.",
        discussion: """
            EXAMPLES
              SLUICE_DATABASE_URL=postgresql://owner@db/sluice sluice migrate
              sluice migrate --dry-run
              sluice migrate --roles
              sluice migrate --citus --shards 4

            Run it before the first start, and before the gateways of a new version start. Prints each migration that \
            it applies. Each migration is one transaction; if it fails, it is rolled back. Migrations can run while \
            gateways serve requests: they wait for a lock for at most one second and retry for ten minutes, so that \
            other transactions are not blocked for long. Concurrent runs take turns. A schema of a newer version is \
            not changed; the newer migrations are printed, and the exit code is 0.

            --roles creates two roles, and enables row-level security on every table. With sluice_gateway, gateways \
            need not own the tables: grant it to their login role afterwards, such as GRANT sluice_gateway TO gateway. \
            With sluice_reader, organizations' analysts can read their rows (see `sluice organizations readers`). If \
            the roles do not exist, the right to create roles is required. Later runs update their privileges, also \
            without the flag.

            --citus distributes the tables of an empty database over the servers of a Citus cluster, by organization. \
            Connect to its coordinator. Later runs distribute new tables without the flag. A database with rows is \
            not distributed.
            """
                + HelpText.exitCodes([
                    0: "The schema is up to date; with --dry-run, also if migrations are pending.",
                    1: "A migration failed; standard error has the reason.",
                    78: "The configuration is invalid, or a connection pooler shares sessions between clients "
                        + "(transaction mode).",
                ])
    )

    @Option(
        help: ArgumentHelp(
            "Partitions of each large table, 1 to 1024; fixed when the tables are created. Use at least as many as "
                + "SLUICE_COMMITTERS will ever be.",
            valueName: "number"
        )
    )
    var partitions = Schema.defaultPartitions

    @Flag(help: "Only print what would be applied, including roles and distribution.")
    var dryRun = false

    @Flag(help: "Also create the roles sluice_gateway and sluice_reader, and grant their privileges.")
    var roles = false

    @Flag(help: "Distribute the tables over the servers of a Citus cluster.")
    var citus = false

    @Option(
        help: ArgumentHelp(
            "With --citus: shards of each table in total, 1 to 256. Only for new tables. Recommended: 2 to 4 per "
                + "server. (default: 2 per server)",
            valueName: "number"
        )
    )
    var shards: Int?

    @OptionGroup var options: ConfigurationOptions

    func validate() throws {
        guard (1...1_024).contains(partitions) else { throw ValidationError("--partitions must be from 1 to 1024.") }
        guard let shards else { return }
        guard citus else { throw ValidationError("--shards needs --citus.") }
        guard (1...Distribution.mostShards).contains(shards) else {
            throw ValidationError("--shards must be from 1 to \(Distribution.mostShards).")
        }
    }

    func run() async throws {
        let settings = try await options.load()
        let migrator = Schema.migrator(partitions: partitions)
        do {
            if try await Pooling.check(at: settings.databaseURL) == .shared {
                throw Terminal.failure(PoolerAdvice.sentence, Terminal.badConfiguration)
            }
            let (isToBeSpread, isWorker) = try await requireCluster(settings)
            let (names, newer) = try await SchemaCheck.withConnection(to: settings.databaseURL) { connection in
                if let obstacle = try await Schema.obstacle(on: connection) { throw obstacle }
                let status = try await migrator.status(on: connection)
                // if there is nothing to do, the command may run on a gateway's connection to a worker, too
                if isWorker, roles || !status.pending.isEmpty { throw Distribution.Refusal.worker }
                // without pending migrations the command needs no rights, so a gateway's role may run it, too
                let isDone = dryRun || status.pending.isEmpty
                return (isDone ? status.pending : try await migrate(migrator, connection), status.unknownNewer)
            }
            for name in names { Terminal.output(dryRun ? "would apply \(name)" : "applied \(name)") }
            if names.isEmpty { Terminal.output("The schema is up to date.") }
            if !newer.isEmpty { Terminal.output("A newer version has applied \(newer.joined(separator: ", ")).") }
            if isToBeSpread { try await spread(settings) }
            if !isWorker { try await grant(settings) }
        } catch let refusal as Distribution.Refusal {
            throw Terminal.failure(Self.reason(refusal))
        } catch let obstacle as SchemaObstacle {
            throw Terminal.failure(obstacle.userMessage + settings.databaseHint)
        } catch let error as PostgresError where error.isOfConnection {
            throw Terminal.failure(ConnectionFailure(error).userMessage + settings.databaseHint, Terminal.unavailable)
        } catch let error as PostgresError {
            throw Terminal.failure("the database returned an error: \(error.userMessage)\(settings.databaseHint)")
        } catch let error as MigratorError {
            throw Terminal.failure(error.userMessage)
        }
    }

    /// Returns two facts: whether the tables are or will be distributed over a Citus cluster, and whether this server
    /// is a worker of that cluster. The schema cannot be changed on a worker.
    ///
    /// This method is called before any change.
    private func requireCluster(_ settings: Settings) async throws -> (isToBeSpread: Bool, isWorker: Bool) {
        let facts = try await SchemaCheck.withConnection(to: settings.databaseURL) {
            try await Distribution.facts(on: $0)
        }
        guard facts.isSpread || facts.isCoordinator else { throw Distribution.Refusal.worker }
        if !citus, !facts.isSpread, facts.workers > 0 {
            Terminal.printError(
                "the database is a coordinator with \(facts.workers) workers, but its tables would be only on the "
                    + "coordinator; to distribute them while they are empty, run: sluice migrate --citus"
            )
        }
        guard citus, !facts.isSpread else { return (facts.isSpread, !facts.isCoordinator) }
        guard facts.version != nil else { throw Distribution.Refusal.noCluster }
        guard facts.servers > 0 else { throw Distribution.Refusal.noServer }
        return (true, false)
    }

    private func spread(_ settings: Settings) async throws {
        let (before, after) = try await SchemaCheck.withConnection(to: settings.databaseURL) { connection in
            let before = try await Distribution.facts(on: connection)
            let shards = shards ?? Distribution.defaultShards(servers: before.servers)
            // if there is nothing to distribute, the command needs no rights
            let isDone = dryRun || before.isSpread && before.isWhole
            if !isDone { try await Distribution.spread(shards: shards, on: connection) }
            return (before, try await Distribution.facts(on: connection))
        }
        guard !before.isSpread else { return }
        if dryRun { return Terminal.output("would distribute the tables over \(before.servers) servers") }
        Terminal.output("The tables are distributed over \(after.servers) servers, in \(after.shards) shards each.")
    }

    private static func reason(_ refusal: Distribution.Refusal) -> String {
        switch refusal {
        case .noCluster:
            "this database is no Citus coordinator: run CREATE EXTENSION citus on every server, and register the servers"
        case .worker:
            "this server is a worker of a Citus cluster, but tables are created on the coordinator; set "
                + "\(Setting.databaseURL.variable) to the coordinator's URL"
        case .tableElsewhere(let table):
            "a server of the cluster has a local table: \(table); drop it there, in this database, and run this again"
        case .noServer: "no server of the cluster accepts shards: register one with citus_add_node"
        case .inUse(let table):
            "table \(table) has rows: a database in use is not distributed; create a new one with --citus, stop the "
                + "gateways, and copy the rows with pg_dump --data-only --load-via-partition-root"
        }
    }

    /// Updates the privileges of the roles if the roles were set up before.
    private func grant(_ settings: Settings) async throws {
        do {
            let isGranted = try await SchemaCheck.withConnection(to: settings.databaseURL) { connection in
                let isDue = roles ? true : try await Roles.isGranted(on: connection)
                if isDue, !dryRun { try await Roles.grant(on: connection) }
                return isDue
            }
            guard isGranted, roles else { return }
            let names = "\(Roles.gateway) and \(Roles.reader)"
            Terminal.output(dryRun ? "would set up the roles \(names)" : "The roles \(names) are set up.")
        } catch let error as PostgresError where error.sqlState == "42501" {
            // a role that does not own the tables cannot grant
            guard roles else { return }
            throw Terminal.failure(
                "the roles cannot be set up: \(error.message); as a superuser, run: \(Roles.creation); "
                    + "then, as the owner of the tables: sluice migrate --roles"
            )
        }
    }

    private func migrate(_ migrator: Migrator, _ connection: Connection) async throws -> [String] {
        try await migrator.migrate(on: connection) { failure in
            guard case .failed(let name, let error) = failure else { return }
            Terminal.printError("\(name) is blocked by another transaction's lock (\(error.message)); retrying")
        }
    }
}
