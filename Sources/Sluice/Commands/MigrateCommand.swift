import ArgumentParser
import Postgres
import SyncStore

struct MigrateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate",
        abstract: "Bring the database's schema up to date.",
        discussion: """
            EXAMPLES
              SLUICE_DATABASE_URL=postgresql://owner@db/sluice sluice migrate
              sluice migrate --dry-run
              sluice migrate --roles

            Each migration is a transaction: one that fails leaves nothing behind.
            It can run while gateways do: it waits a second at most for a lock that
            somebody holds, and tries again for ten minutes, so that nobody queues behind
            it for long. Several runs at the same time take turns. A schema that a newer version
            has migrated is left alone.

            --roles makes the roles sluice_gateway, for gateways that own nothing, and
            sluice_reader, for tenants' analysts, with row-level security on every table.
            It needs the right to create roles, unless they are there; later runs keep
            up to date what they may do.
            """
    )

    @Option(help: "Partitions of each large table, 1 to 1024. Counts when the tables are made, not later.")
    var partitions = Schema.defaultPartitions

    @Flag(help: "Only say what would be applied.")
    var dryRun = false

    @Flag(help: "Also make the roles sluice_gateway and sluice_reader, and grant them what they need.")
    var roles = false

    @OptionGroup var options: ConfigurationOptions

    func validate() throws {
        guard (1...1_024).contains(partitions) else { throw ValidationError("--partitions must be from 1 to 1024.") }
    }

    func run() async throws {
        let settings = try await options.load()
        let migrator = Schema.migrator(partitions: partitions)
        do {
            if try await Pooling.look(at: settings.databaseURL) == .shared {
                throw Terminal.failure(PoolerAdvice.sentence, Terminal.badConfiguration)
            }
            let (names, newer) = try await SchemaCheck.withConnection(to: settings.databaseURL) { connection in
                let status = try await migrator.status(on: connection)
                // without pending migrations no rights are needed: a gateway's role may run it, too
                let isDone = dryRun || status.pending.isEmpty
                return (isDone ? status.pending : try await migrate(migrator, connection), status.unknownNewer)
            }
            for name in names { Terminal.say(dryRun ? "would apply \(name)" : "applied \(name)") }
            if names.isEmpty { Terminal.say("The schema is up to date.") }
            if !newer.isEmpty { Terminal.say("A newer version has applied \(newer.joined(separator: ", ")).") }
            try await grant(settings)
        } catch let error as PostgresError where error.isUnavailable || error.kind == .timedOut {
            throw Terminal.failure(
                "the database cannot be reached: \(error.message)\(settings.databaseHint)",
                Terminal.unavailable
            )
        } catch let error as PostgresError {
            throw Terminal.failure("the database refuses: \(error.words)\(settings.databaseHint)")
        } catch let error as MigratorError {
            throw Terminal.failure(error.words)
        }
    }

    /// Keeps the grants of the roles up to date wherever they were set up once.
    private func grant(_ settings: Settings) async throws {
        do {
            let isGranted = try await SchemaCheck.withConnection(to: settings.databaseURL) { connection in
                let isDue = roles ? true : try await Roles.isGranted(on: connection)
                if isDue, !dryRun { try await Roles.grant(on: connection) }
                return isDue
            }
            guard isGranted, roles else { return }
            let names = "\(Roles.gateway) and \(Roles.reader)"
            Terminal.say(dryRun ? "would set up the roles \(names)" : "The roles \(names) are set up.")
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
            Terminal.complain("\(name) meets locks of others (\(error.message)); it is tried again")
        }
    }
}
