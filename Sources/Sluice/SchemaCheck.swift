import Postgres
import SyncStore

/// The database's state relative to this program.
enum SchemaCheck {
    enum Finding: Sendable {
        case ready(Pooling)
        /// A pooler hands sessions from client to client, which the gateway cannot work with.
        case shared
        /// Migrations that have to be applied first.
        case behind([String])
        /// It is there, but unsuitable; trying later does not help.
        case unfit(String)
        /// It cannot be reached now.
        case unreachable(String)

        /// For people; the state, and the remedy where there is one.
        var words: String {
            switch self {
            case .ready: "the database is ready"
            case .shared: PoolerAdvice.sentence
            case .behind(let pending): "the schema lacks \(pending.joined(separator: ", ")); run: sluice migrate"
            case .unfit(let reason): "the database cannot be used: \(reason)"
            case .unreachable(let reason): "the database cannot be reached: \(reason)"
            }
        }
    }

    static func look(at databaseURL: String) async -> Finding {
        do {
            let pooling = try await Pooling.look(at: databaseURL)
            if pooling == .shared { return .shared }
            let status = try await withConnection(to: databaseURL) { try await Schema.migrator().status(on: $0) }
            return status.pending.isEmpty ? .ready(pooling) : .behind(status.pending)
        } catch let error as PostgresError {
            return error.isUnavailable || error.kind == .timedOut
                ? .unreachable(error.message) : .unfit(error.words)
        } catch {
            return .unfit(error.words)
        }
    }

    /// Opens a connection for `body` alone.
    ///
    /// - Parameter server: another server of the URL's cluster.
    static func withConnection<Value: Sendable>(
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
