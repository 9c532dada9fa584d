package import Postgres
import SyncStore

/// The database's state relative to this program.
package enum SchemaCheck {
    package enum Finding: Sendable {
        case ready(Pooling)
        /// A pooler hands sessions from client to client, which the gateway cannot work with.
        case shared
        /// No migration was applied yet.
        case empty
        /// Migrations that have to be applied first.
        case behind([String])
        /// It is there, but unsuitable; trying later does not help.
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

    /// Throws if a gateway cannot use the database either. A gateway's own role need not be allowed to migrate.
    private static func require(_ obstacle: SchemaObstacle) throws {
        switch obstacle {
        case .encoding, .noSchema, .taken: throw obstacle
        case .noRight: break
        }
    }

    /// Names of migrations, as many as a person reads.
    package static func list(_ migrations: [String]) -> String {
        guard migrations.count > 4, let first = migrations.first, let last = migrations.last else {
            return migrations.joined(separator: ", ")
        }
        return "\(migrations.count) migrations, \(first) to \(last)"
    }

    /// Opens a connection for `body` alone.
    ///
    /// - Parameter server: another server of the URL's cluster.
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
