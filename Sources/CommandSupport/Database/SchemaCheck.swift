package import Logging
package import Postgres
import SyncStore
import Telemetry

/// The database's state relative to this program.
package enum SchemaCheck {
    package enum Finding: Sendable {
        case ready(Pooling)
        /// A pooler lets clients share sessions. The gateway does not support such a pooler.
        case shared
        /// No migration was applied yet.
        case empty
        /// These migrations must be applied first.
        case behind([String])
        /// The database exists but is unsuitable. A later attempt would fail, too.
        case unfit(String)
        /// No connection can be made now.
        case unreachable(ConnectionFailure)

        /// The state for operators, with the remedy if there is one.
        package var userMessage: String {
            switch self {
            case .ready: "the database is ready"
            case .shared: PoolerAdvice.sentence
            case .empty: "the database is empty: run sluice migrate"
            case .behind(let pending): "the schema is missing \(SchemaCheck.list(pending)); run: sluice migrate"
            case .unfit(let reason): "the database cannot be used: \(reason)"
            case .unreachable(let failure): failure.userMessage
            }
        }
    }

    package static func check(at databaseURL: String) async -> Finding {
        do {
            let pooling = try await Pooling.check(at: databaseURL)
            if pooling == .shared { return .shared }
            let status = try await withConnection(to: databaseURL) { connection in
                switch try await Schema.obstacle(on: connection) {
                case let obstacle?: try require(obstacle)
                case nil: break
                }
                return try await Schema.migrator().status(on: connection)
            }
            if status.pending.isEmpty { return .ready(pooling) }
            return status.applied.isEmpty && status.unknownNewer.isEmpty ? .empty : .behind(status.pending)
        } catch let obstacle as SchemaObstacle {
            return .unfit(obstacle.userMessage)
        } catch let error as PostgresError {
            return error.isOfConnection ? .unreachable(ConnectionFailure(error)) : .unfit(error.userMessage)
        } catch {
            return .unfit(error.userMessage)
        }
    }

    /// Throws an obstacle to migrations if the obstacle also prevents a gateway from using the database.
    ///
    /// Missing rights to migrate are ignored, because a gateway's role does not need them.
    private static func require(_ obstacle: SchemaObstacle) throws {
        switch obstacle {
        case .encoding, .noSchema, .taken: throw obstacle
        case .noRight: break
        }
    }

    /// The names of migrations, or only the first and the last if there are more than four.
    package static func list(_ migrations: [String]) -> String {
        guard migrations.count > 4, let first = migrations.first, let last = migrations.last else {
            return migrations.joined(separator: ", ")
        }
        return "\(migrations.count) migrations, \(first) to \(last)"
    }

    /// Opens a connection that only `body` uses.
    ///
    /// - Parameter server: a server of the Citus cluster to connect to, instead of the server in the URL.
    package static func withConnection<Value: Sendable>(
        to databaseURL: String,
        at server: ServerAddress? = nil,
        _ body: (Connection) async throws -> Value
    ) async throws -> Value {
        var configuration = ConnectionConfiguration(uri: databaseURL, connectTimeout: .seconds(3))
        configuration.server = server
        if server != nil { configuration.dialect = Cluster().dialect }
        let connection = try await Connection.open(configuration)
        do {
            let value = try await body(connection)
            await connection.closeAndWait()
            return value
        } catch {
            await connection.closeAndWait()
            throw error
        }
    }
}

extension SchemaObstacle {
    /// The obstacle, with an instruction for the operator.
    package var userMessage: String {
        switch self {
        case .encoding(let encoding, let database):
            "database \(database) has the encoding \(encoding), which cannot store every text; create one with UTF8: "
                + "createdb --encoding UTF8 --template template0 --owner ROLE NAME, and set "
                + "\(Setting.databaseURL.variable) to it"
        case .noSchema:
            "the role's search_path contains no existing schema that the role may use; run, as a superuser: "
                + "CREATE SCHEMA IF NOT EXISTS public; GRANT USAGE ON SCHEMA public TO the role"
        case .taken(let names, let database):
            "database \(database) has tables or types of another program with names that Sluice uses "
                + "(\(names.joined(separator: ", "))); create a separate database: createdb --encoding UTF8 --template "
                + "template0 --owner ROLE sluice, and set \(Setting.databaseURL.variable) to it. Nothing was changed"
        case .noRight(let schema, let database, let role):
            "role \(role) may not create tables in schema \(schema) of database \(database); make it the database's "
                + "owner, as a superuser: ALTER DATABASE \(database) OWNER TO \(role); or run sluice migrate as the "
                + "owner"
        }
    }
}

/// Messages about a pooler between the gateway and its database.
package enum PoolerAdvice {
    /// The kind of pooler that is refused.
    package static let refusal =
        "a pooler that shares sessions between clients (PgBouncer in transaction or statement mode)"
    package static let reason =
        "the gateway uses prepared statements, settings and LISTEN of its sessions, and has its own pool"
    package static let remedy =
        "Set \(Setting.databaseURL.variable) to PostgreSQL itself, or to a pool in session mode "
        + "(PgBouncer: pool_mode=session for this database)."
    /// The refusal with its reason and remedy, for commands.
    package static let sentence = "the database is behind \(refusal): \(reason). \(remedy)"
    /// The notice about a pooler that keeps a separate session for each client.
    package static let notice =
        "a pooler in session mode, which adds latency and must allow all connections of each gateway"

    /// Logs the notice if there is a pooler.
    package static func record(_ pooling: Pooling, to logger: Logger) {
        guard pooling == .session else { return }
        logger.notice("Database is behind a pooler", metadata: [LogKeys.reason: "\(notice)"])
    }
}
